//! `logmill check` finds damage in any file of a store and names it.

use crate::support::{Home, run, sample};

#[test]
fn check_passes_a_sound_store_and_names_a_damaged_part_and_a_damaged_manifest() {
    let home = Home::new();
    home.import(&sample(), &[]);
    let told = run(&["check", &home.data]).code(0);
    assert!(told.stdout.contains("0 differences"), "{}", told.stdout);
    let mut parts = Vec::new();
    let mut folders = vec![std::path::PathBuf::from(&home.data)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                parts.push(path);
            }
        }
    }
    let find = |ending: &str| {
        let mut found = parts
            .iter()
            .filter(|p| p.to_string_lossy().ends_with(ending));
        found.next().unwrap().clone()
    };
    let part = find(".parquet");
    let whole = std::fs::read(&part).unwrap();
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 0x10;
    std::fs::write(&part, &damaged).unwrap();
    let told = run(&["check", &home.data]).code(1);
    let name = part.file_name().unwrap().to_string_lossy().into_owned();
    assert!(told.stdout.contains(&name), "{}", told.stdout);
    std::fs::write(&part, &whole).unwrap();
    let manifest = find(".manifest");
    let mut bytes = std::fs::read(&manifest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&manifest, &bytes).unwrap();
    // One sound place is enough: the store opens, and check names the damaged one.
    let told = run(&["check", &home.data]).code(1).stdout;
    assert!(told.contains("one of its two copies is damaged"), "{told}");
    assert!(told.contains(&*manifest.to_string_lossy()), "{told}");
    for place in ["manifest", "manifest-copy"] {
        let place = std::path::Path::new(&home.data).join(place);
        for entry in std::fs::read_dir(place).unwrap() {
            std::fs::write(entry.unwrap().path(), &bytes).unwrap();
        }
    }
    let told = run(&["check", &home.data]).code(65);
    assert!(told.stderr.contains("manifest"), "{}", told.stderr);
    assert!(!told.stderr.contains("logmill check"), "{}", told.stderr);
}
