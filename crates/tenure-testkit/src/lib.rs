//! What holds every store of [`tenure`] to its promise, for its authors and for everyone else's.
//!
//! | part | what it is for |
//! |---|---|
//! | [`conformance`] | the cases that every store must pass, gated by what it says it can do |
//! | [`faults`] | lost replies, delays, hangs and duplicates, as a store around a store |
//! | [`fake`] | locks for your own tests that can be lost, paused and skewed on command |
//! | [`sim`] | the real engine under a seeded simulation of network, crashes, pauses and clocks |
//! | [`faketime`] | processes whose clock is wrong |
//! | [`halting`] | a store that can be left at every await point |
//! | [`mutants`] | stores with known bugs, to prove that the suite finds them |
//! | [`proxy`] | a TCP proxy that loses, delays and cuts on command |
//! | `servers` | real servers, started by the tests (feature `servers`) |
//! | [`role`] | helper processes that tests start, stop and kill |

pub mod conformance;
pub mod fake;
pub mod faketime;
pub mod faults;
pub mod halting;
pub mod mutants;
pub mod proxy;
pub mod role;
#[cfg(feature = "servers")]
pub mod servers;
pub mod sim;
pub mod wait;
