//! Locks that people use instead, without anything of tenure.

pub(crate) mod etcd_lock;
pub(crate) mod redis_lock;
