//! One row of the matrix: a call, whom it is for, and what it answers.

use std::net::SocketAddr;

use prost::Message;
use tenure_api::tenure_v1::exchange_answer::Answer;
use tenure_api::tenure_v1::{ExchangeRefusal, ExchangeResponse, WatchKeysResponse};
use tonic::transport::Channel;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::grpc::{call, converse};
use crate::http1::{Reply, ask};
use crate::role::Needs;

/// Where a call goes to: a namespace, and a key that no other call has used.
#[derive(Debug)]
pub(crate) struct Spot {
    pub(crate) namespace: &'static str,
    pub(crate) key: String,
}

/// How a call is made.
pub(crate) enum Ask {
    /// Headers and a body.
    Http(&'static str, fn(&Spot) -> String),
    /// A message.
    Grpc(fn(&Spot) -> Vec<u8>),
    /// Messages, of which more could follow.
    Watch(fn(&Spot) -> Vec<u8>),
    /// The same, with one call in it.
    Exchange(fn(&Spot) -> Vec<u8>),
}

/// What a surface says to whoever may not, and to a stranger.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words {
    pub(crate) refused: &'static str,
    pub(crate) stranger: &'static str,
}

pub(crate) struct Row {
    /// `GET /v1/locks/{key}`, or `/tenure.v1.LockService/Lock`.
    pub(crate) route: &'static str,
    pub(crate) needs: Needs,
    /// What is answered to whoever may: `done`, or what is wrong with the call otherwise.
    pub(crate) answer: &'static str,
    pub(crate) ask: Ask,
    pub(crate) words: Words,
    /// Where the surface has namespaces; without them, all is in `default`.
    pub(crate) namespaces: &'static [&'static str],
}

/// The server, as its clients reach it.
pub(crate) struct Wire {
    pub(crate) at: SocketAddr,
    pub(crate) channel: Channel,
}

impl Row {
    /// Makes the call and says how it ended, in few words.
    pub(crate) async fn make(&self, wire: &Wire, token: Option<&str>, spot: &Spot) -> String {
        match self.ask {
            Ask::Http(headers, body) => {
                let (method, route) = self.route.split_once(' ').unwrap();
                let path = route.replace("{key}", &spot.key).replace("{resource}", &spot.key);
                let mut path = path.replace("{store}", "main");
                if self.namespaces.len() > 1 {
                    path = format!("{path}?namespace={}", spot.namespace);
                }
                let mut headers = headers.to_owned();
                if let Some(token) = token {
                    headers += &format!("authorization: Bearer {token}\r\n");
                }
                let request = format!("{method} {path}");
                said(&ask(wire.at, &request, &headers, body(spot).as_bytes()).await)
            }
            Ask::Grpc(message) => {
                match call(&wire.channel, self.route, token, message(spot)).await {
                    Ok(_) => "done".to_owned(),
                    Err(status) => told(&status),
                }
            }
            Ask::Watch(message) => {
                match converse(&wire.channel, self.route, token, vec![message(spot)]).await {
                    Ok(mut answers) => {
                        let first = answers.message().await.unwrap().unwrap();
                        let news = WatchKeysResponse::decode(&*first).unwrap();
                        let refused = news.refused.first();
                        refused.map_or("done".to_owned(), |why| {
                            format!("{:?} {}", Code::PermissionDenied, why.reason)
                        })
                    }
                    Err(status) => told(&status),
                }
            }
            Ask::Exchange(message) => {
                match converse(&wire.channel, self.route, token, vec![message(spot)]).await {
                    Ok(mut answers) => {
                        let first = answers.message().await.unwrap().unwrap();
                        let mut answers = ExchangeResponse::decode(&*first).unwrap().answers;
                        match answers.pop().unwrap().answer.unwrap() {
                            Answer::Refusal(refusal) => told(&status_of(refusal)),
                            _ => "done".to_owned(),
                        }
                    }
                    Err(status) => told(&status),
                }
            }
        }
    }
}

fn status_of(refusal: ExchangeRefusal) -> Status {
    let ExchangeRefusal { code, message, details } = refusal;
    Status::with_details(Code::from(code), message, details.into())
}

fn said(Reply { status, body }: &Reply) -> String {
    if *status < 300 {
        return "done".to_owned();
    }
    let json: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    let code = json["error"]["code"].as_str().or(json["errorCode"].as_str()).unwrap_or(body);
    format!("{status} {code}")
}

fn told(status: &Status) -> String {
    let reason = status.get_details_error_info().map(|info| info.reason).unwrap_or_default();
    format!("{:?} {reason}", status.code())
}
