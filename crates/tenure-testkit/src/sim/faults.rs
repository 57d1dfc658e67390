//! What goes wrong, when, and for how long.

use std::sync::Arc;
use std::time::Duration;

use super::counters::Count;
use super::mutant::Mutant;
use super::trace::Step;
use super::world::{SEATS, Weather, World};

const STORM: Weather =
    Weather { lost: 120, duplicated: 80, refused: 60, slow: 120, delay_ms_max: 60 };
const SLOW: Weather =
    Weather { lost: 10, duplicated: 20, refused: 10, slow: 400, delay_ms_max: 150 };
const FAIR: Weather = Weather { lost: 10, duplicated: 10, refused: 5, slow: 10, delay_ms_max: 20 };

/// Strikes until the world is healed.
pub(crate) async fn strike(world: Arc<World>) {
    let faults = world.plan.faults;
    loop {
        world.timeline.sleep(world.dice.millis(50, 1500)).await;
        if world.is_healed() {
            return;
        }
        let seat = usize::try_from(world.dice.below(SEATS as u64)).unwrap_or(0);
        match world.dice.below(16) {
            0..4 if faults.client_stops => stop_client(&world, seat),
            4..6 if faults.client_crashes => crash_client(&world, seat),
            6 if faults.server_stops => stop_server(&world),
            7..9 if faults.server_crashes => crash_server(&world),
            9..11 if faults.partitions => cut(&world, seat),
            11..15 if faults.network => {
                let weather = world.dice.pick(&[Weather::CALM, FAIR, SLOW, STORM]);
                world.step(Step::Fault { what: "weather", node: 0 });
                world.set_weather(weather);
            }
            _ => {}
        }
        if world.plan.mutant == Some(Mutant::WallClockExpiry) && world.dice.chance(200) {
            world.server().clock.set_forward(world.dice.millis(500, 3000));
        }
    }
}

fn struck(world: &World, count: Count, what: &'static str, node: usize) {
    let mut checker = world.checker();
    checker.count(count);
    checker.step(Step::Fault { what, node });
}

/// Does `then` after `span`, or at once when the world heals.
fn later(world: &Arc<World>, span: Duration, then: impl FnOnce(&World) + Send + 'static) {
    let world = Arc::clone(world);
    tokio::spawn(async move {
        tokio::select! {
            biased;
            () = world.until_healed() => {}
            () = world.timeline.sleep(span) => {}
        }
        then(&world);
    });
}

fn stop_client(world: &Arc<World>, seat: usize) {
    let node = world.node(seat);
    if !node.stop() {
        return;
    }
    struck(world, Count::ClientStop, "client stopped", seat);
    let span = world.dice.millis(50, 4500);
    later(world, span, move |world| {
        node.resume();
        world.step(Step::Fault { what: "client goes on", node: seat });
    });
}

fn crash_client(world: &Arc<World>, seat: usize) {
    if world.node(seat).kill() {
        struck(world, Count::ClientCrash, "client crashed", seat);
    }
}

fn stop_server(world: &Arc<World>) {
    let node = Arc::clone(&world.server().node);
    if !node.stop() {
        return;
    }
    struck(world, Count::ServerStop, "server stopped", 0);
    let span = world.dice.millis(50, 2000);
    later(world, span, move |world| {
        node.resume();
        world.step(Step::Fault { what: "server goes on", node: 0 });
    });
}

fn crash_server(world: &Arc<World>) {
    let lost = {
        let mut server = world.server();
        if !server.is_up {
            return;
        }
        server.crash()
    };
    struck(world, Count::ServerCrash, "server crashed", 0);
    if lost {
        world.count(Count::ServerTailLost);
    }
    let span = world.dice.millis(20, 2500);
    later(world, span, World::restart_server);
}

fn cut(world: &Arc<World>, seat: usize) {
    if world.is_cut(seat) {
        return;
    }
    world.set_cut(seat, true);
    struck(world, Count::Partition, "partitioned", seat);
    let span = world.dice.millis(100, 4000);
    later(world, span, move |world| {
        world.set_cut(seat, false);
        world.step(Step::Fault { what: "partition over", node: seat });
    });
}
