use super::*;

#[test]
fn connections_take_at_most_half_of_the_descriptors() {
    let places = |wanted, descriptors| {
        let places = Places::within(wanted, descriptors);
        (places.connections, places.spare)
    };
    assert_eq!(places(1000, None), (1000, 64));
    assert_eq!(places(1000, Some(20_000)), (1000, 64));
    assert_eq!(places(1000, Some(1024)), (448, 64));
    assert_eq!(places(1000, Some(128)), (56, 8));
    assert_eq!(places(1000, Some(16)), (7, 1));
    assert_eq!(places(1000, Some(0)), (1, 1));
    assert_eq!(places(10, Some(1024)), (10, 64));
}
