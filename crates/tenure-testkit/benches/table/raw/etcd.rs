//! Two transactions: put if absent, delete if present.

use anyhow::{Result, ensure};
use async_trait::async_trait;
use tenure_testkit::servers::Service;
use tonic::transport::Channel;

use super::{Raw, address};
use crate::etcd_call::{self, call};

pub(super) struct RawEtcd(Channel);

pub(super) async fn connect(service: &dyn Service) -> Result<RawEtcd> {
    Ok(RawEtcd(etcd_call::connect(address(service)?).await?))
}

impl RawEtcd {
    async fn transact(&self, request: TxnRequest) -> Result<()> {
        let answer: TxnResponse = call(&self.0, "/etcdserverpb.KV/Txn", request).await?;
        ensure!(answer.succeeded, "not as expected");
        Ok(())
    }
}

fn transaction(version: i64, operation: Operation) -> TxnRequest {
    let compare = Compare { result: 0, target: 0, key: b"raw".to_vec(), version: Some(version) };
    let success = RequestOp { operation: Some(operation) };
    TxnRequest { compare: vec![compare], success: vec![success] }
}

#[async_trait]
impl Raw for RawEtcd {
    async fn take(&mut self) -> Result<()> {
        let put = Put { key: b"raw".to_vec(), value: vec![b'x'; 120] };
        self.transact(transaction(0, Operation::Put(put))).await
    }

    async fn give(&mut self) -> Result<()> {
        let delete = Delete { key: b"raw".to_vec() };
        self.transact(transaction(1, Operation::Delete(delete))).await
    }

    /// From the server's own memory: a read that is agreed on would wait for a majority.
    async fn ping(&mut self) -> Result<()> {
        let range = Range { key: b"raw".to_vec(), serializable: true };
        let _: RangeResponse = call(&self.0, "/etcdserverpb.KV/Range", range).await?;
        Ok(())
    }
}

#[derive(Clone, PartialEq, prost::Message)]
struct Range {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bool, tag = "7")]
    serializable: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RangeResponse {
    #[prost(int64, tag = "4")]
    count: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    success: Vec<RequestOp>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Compare {
    #[prost(int32, tag = "1")]
    result: i32,
    #[prost(int32, tag = "2")]
    target: i32,
    #[prost(bytes = "vec", tag = "3")]
    key: Vec<u8>,
    #[prost(int64, optional, tag = "4")]
    version: Option<i64>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RequestOp {
    #[prost(oneof = "Operation", tags = "2, 3")]
    operation: Option<Operation>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Operation {
    #[prost(message, tag = "2")]
    Put(Put),
    #[prost(message, tag = "3")]
    Delete(Delete),
}

#[derive(Clone, PartialEq, prost::Message)]
struct Put {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Delete {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct TxnResponse {
    #[prost(bool, tag = "2")]
    succeeded: bool,
}
