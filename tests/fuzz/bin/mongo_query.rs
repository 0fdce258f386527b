#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::mongo_query(bytes));
libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    targets::changed_query(data, size, max_size, seed)
});
libfuzzer_sys::fuzz_crossover!(|first: &[u8], second: &[u8], out: &mut [u8], seed: u32| {
    targets::crossed_query(first, second, out, seed)
});
