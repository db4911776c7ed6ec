//! A creation that the power cuts short, at every step of it, and the one that follows.

use crate::common::{ME, Medium, POOL, Rng, TestWorld, as_world, geometry, name, open};
use std::rc::Rc;
use varve_pool::label::{
    CreateError, Finding, LabelStore, Membership, Role, Terms, choose, create,
};

const TERMS: Terms = Terms {
    owner: ME,
    take_over: false,
    accept_loss: false,
};
const ROLES: [Role; 3] = [Role::Fast, Role::Fast, Role::Dense];

async fn label(stores: &[Rc<LabelStore>]) -> Result<(), CreateError> {
    let drives: Vec<_> = ROLES.into_iter().zip(stores.iter().cloned()).collect();
    create(POOL, name(), geometry(), &drives).await
}

/// Labels, a session on them, and the word that the pool exists; the epoch of the session.
async fn make(world: Rc<TestWorld>, media: Vec<Rc<Medium>>) -> Result<u32, CreateError> {
    let (stores, _) = open(Rc::clone(&world), media).await;
    label(&stores).await?;
    let found: Vec<_> = stores.iter().map(|store| store.finding()).collect();
    let import = choose(POOL, &found, TERMS).expect("all drives are here");
    let members = Membership::start(as_world(&world), &import, ME, &stores).await;
    let members = members.expect("all drives answer");
    assert!(members.state().unfinished, "nothing was said yet");
    members.finish_creation().await.expect("all drives answer");
    Ok(members.state().epoch)
}

/// Cuts a creation after `steps`, the next one earlier; true if the first was at its end by then.
fn cut_after(steps: u64, seed: u64) -> bool {
    let media: Vec<_> = ROLES.iter().map(|_| Rc::new(Medium::new())).collect();
    let mut rng = Rng::new(seed);
    let (mut ended, mut epochs) = (Vec::new(), 0);
    // Cut twice, then left alone.
    for limit in [steps, steps / 2, u64::MAX] {
        let world = TestWorld::new(seed);
        let flow = make(Rc::clone(&world), media.clone());
        let made = world.run(limit, flow);
        ended.push(matches!(made, Some(Ok(_))));
        world.clear();
        media.iter().for_each(|medium| medium.crash(&mut rng));
        let (_, found) = world
            .run(u64::MAX, open(Rc::clone(&world), media.clone()))
            .expect("reading ends");
        let states = found.iter().filter_map(|finding| match finding {
            Finding::Label(label) => Some(&label.state),
            _ => None,
        });
        let is_finished = choose(POOL, &found, TERMS).is_ok_and(|i| !i.state.unfinished);
        match made {
            Some(Ok(epoch)) => {
                assert!(is_finished && epoch > epochs, "{steps} {seed}: a pool");
            }
            Some(Err(CreateError::NotBlank { .. })) => {
                assert!(is_finished, "{steps} {seed}: it was made before the cut");
            }
            Some(Err(error)) => panic!("{steps} {seed}: {error}"),
            None => {}
        }
        // A session's epoch is above all that were claimed on any drive before.
        epochs = states.map(|state| state.epoch).max().unwrap_or(0);
    }
    let world = TestWorld::new(seed);
    let last = world.run(u64::MAX, make(Rc::clone(&world), media));
    let last = last.expect("it ends");
    assert!(
        matches!(last, Err(CreateError::NotBlank { .. })),
        "{steps} {seed}: what exists is not made anew: {last:?}"
    );
    ended[0]
}

#[test]
fn creations_cut_short_are_begun_anew_until_the_pool_exists() {
    for seed in 1..=5 {
        let whole = (0..).find(|&steps| cut_after(steps, seed));
        assert!(whole.is_some());
    }
}

/// Other drives beside those of the creation, another order, drives of a pool: refused.
#[test]
fn only_the_same_drives_in_the_same_order_are_labelled_anew() {
    let media: Vec<_> = ROLES.iter().map(|_| Rc::new(Medium::new())).collect();
    let world = TestWorld::new(1);
    let inner = Rc::clone(&world);
    let flow = async move {
        let (stores, _) = open(Rc::clone(&inner), media.clone()).await;
        label(&stores).await.expect("blank drives");
        let (stores, _) = open(Rc::clone(&inner), media.clone()).await;
        label(&stores).await.expect("the same again");
        let mut swapped = media.clone();
        swapped.swap(0, 1);
        let (stores, _) = open(Rc::clone(&inner), swapped).await;
        assert_eq!(
            label(&stores).await,
            Err(CreateError::NotBlank { drive: 0 })
        );
        let blank = Rc::new(Medium::new());
        let (stores, _) = open(inner, vec![blank, Rc::clone(&media[1])]).await;
        assert_eq!(
            label(&stores).await,
            Err(CreateError::NotBlank { drive: 1 }),
            "two drives of a creation that had three"
        );
    };
    world.run(u64::MAX, flow).expect("it ends");
}
