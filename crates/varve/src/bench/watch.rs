//! Looks whether the engine makes progress: a run that stands still ends, and tells what each
//! reactor waits for.

use super::run::BenchError;
use super::station::Station;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use varve_io::{ReactorId, World};
use varve_units::Nanos;

/// Time without a single operation that ends, on any reactor, after which the engine hangs.
/// Arbitrary: drives in memory answer at once, so this is a thousand times the slowest operation.
pub(super) const PATIENCE: Nanos = Nanos::from_secs(20);
/// Time between two looks.
const LOOK: Nanos = Nanos::from_secs(1);
/// Time between two looks for what reactors tell, and how often it is looked for: some may have much to do.
const REPORT_LOOK: Nanos = Nanos::from_millis(50);
const REPORT_LOOKS: u32 = 200;

/// What `work` comes to, unless no operation ends for `patience`; on the first reactor.
///
/// Reactors are asked by jobs and nothing waits for their answers: one that is busy for ever, or has
/// lost what woke it, does not keep the others from being heard.
pub(super) async fn watched<T>(
    world: &dyn World,
    station: &Station,
    patience: Nanos,
    work: impl Future<Output = Result<T, BenchError>>,
) -> Result<T, BenchError> {
    let mut work = pin!(work);
    let mut last = (station.heard(), world.now());
    loop {
        let mut look = world.sleep(LOOK);
        let ended = poll_fn(|context| {
            if let Poll::Ready(value) = work.as_mut().poll(context) {
                return Poll::Ready(Some(value));
            }
            pin!(&mut look).poll(context).map(|()| None)
        });
        if let Some(value) = ended.await {
            return value;
        }
        let (heard, now) = (station.heard(), world.now());
        if heard != last.0 {
            last = (heard, now);
        } else if now.since(last.1) > patience {
            return Err(BenchError::Hangs(reports(world, station).await));
        }
        ask(world, |there| there.tell_ended());
    }
}

/// Has every reactor's generator tell the first one something.
fn ask(world: &dyn World, what: impl FnOnce(Rc<Station>) + Copy + Send + 'static) {
    for to in (0..world.reactors()).map(ReactorId) {
        Station::tell(world, to, what);
    }
}

/// What every reactor waits for, a line each.
async fn reports(world: &dyn World, station: &Station) -> Vec<String> {
    ask(world, |there| there.tell_waits());
    for _ in 0..REPORT_LOOKS {
        world.sleep(REPORT_LOOK).await;
        if station.has_all_reports() {
            break;
        }
    }
    station.take_reports()
}
