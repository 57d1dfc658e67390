//! What is special about etcd: its leases, its leader, its compaction, its users and its alarms.

#![allow(clippy::unwrap_used)]

mod access;
mod cluster;
mod failures;
mod leases;
mod space;
mod stage;
