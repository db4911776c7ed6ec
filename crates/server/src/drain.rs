//! How a server ends: what was taken is answered, for as long as that may last.

use crate::connection::LINGER;
use crate::server::Server;
use varve_control::within;
use varve_units::Nanos;

/// How long stores may take for what is theirs once nobody waits for it: what waits for room comes back at once.
/// Arbitrary: as long as connections take to end, and as long again.
const RECALL_TIME: Nanos = Nanos(2 * LINGER.0);

/// What a drain did not wait for any longer.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Left {
    /// Operations of hosts that were not answered: their connections ended instead.
    pub unanswered: u64,
    /// Those of them that their stores have still.
    pub held: u64,
}

impl Server {
    /// Accepts no more hosts and takes no more commands; ends when all that were taken are answered
    /// and all connections are closed. Answers that a host does not read are given up after a
    /// second.
    pub async fn drain(&self) {
        self.core().begin_draining();
        self.core().emptied().await;
    }

    /// As [`Server::drain`], for `limit` at most. Then all associations end, so that hosts come back elsewhere or
    /// later with what was not answered; what waits for room is sent back by its store. Ends two seconds
    /// later at the latest, with what stores still have.
    pub async fn drain_within(&self, limit: Nanos) -> Left {
        let core = self.core();
        let world = &*core.world;
        let until = world.now() + limit;
        if within(world, until, self.drain()).await.is_some() {
            return Left::default();
        }
        let unanswered = core.in_flight();
        core.end_all();
        let until = world.now() + RECALL_TIME;
        within(world, until, core.emptied()).await;
        Left {
            unanswered,
            held: core.in_flight(),
        }
    }
}
