//! One-shots that are used again.

use varve_io::slot;

/// The place of a value that was taken takes another one.
#[test]
fn a_renewed_place_takes_another_value() {
    let (sender, mut receiver) = slot();
    sender.send(1);
    assert_eq!(receiver.try_take(), Some(1));
    let sender = receiver.renew();
    assert_eq!(receiver.try_take(), None);
    sender.send(2);
    assert_eq!(receiver.try_take(), Some(2));
}

/// There is never a second sender.
#[test]
#[should_panic(expected = "renewed when its value was taken")]
fn a_place_that_is_awaited_is_not_renewed() {
    let (_sender, receiver) = slot::<u32>();
    let _second = receiver.renew();
}
