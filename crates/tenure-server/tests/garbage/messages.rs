//! Messages of protocol buffers: of every method that there is.

use std::time::Duration;

use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use prost_types::field_descriptor_proto::Type;
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorSet};
use tenure::clock::{SystemClock, within};
use tenure_api::tenure_v1::exchange_answer::Answer;
use tenure_api::tenure_v1::{ExchangeRefusal, ExchangeResponse};
use tonic::{Code, Status};

use crate::dice::{Dice, replay, seeds};
use crate::grpc::{call, converse};
use crate::{is_well, server};

/// How long a stream may take to say something. Some say nothing.
const SOON: Duration = Duration::from_millis(50);

/// A method, and a message for it as it should be.
#[derive(Debug)]
struct Method {
    path: String,
    takes_many: bool,
    message: Vec<u8>,
}

/// Every method of every service, with every field of its message set.
fn methods() -> Vec<Method> {
    let set = FileDescriptorSet::decode(tenure_api::DESCRIPTORS).unwrap();
    let mut methods = Vec::new();
    for file in &set.file {
        for service in &file.service {
            for method in &service.method {
                methods.push(Method {
                    path: format!("/{}.{}/{}", file.package(), service.name(), method.name()),
                    takes_many: method.client_streaming(),
                    message: filled(&set, method.input_type()),
                });
            }
        }
    }
    methods
}

fn message<'a>(set: &'a FileDescriptorSet, name: &str) -> &'a DescriptorProto {
    let (package, name) = name.trim_start_matches('.').rsplit_once('.').unwrap();
    let mut files = set.file.iter().filter(|file| file.package() == package);
    files.find_map(|file| file.message_type.iter().find(|m| m.name() == name)).unwrap()
}

fn filled(set: &FileDescriptorSet, name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for field in &message(set, name).field {
        let number = u32::try_from(field.number()).unwrap();
        let value = match field.r#type() {
            Type::String => text(field).as_bytes().to_vec(),
            Type::Message => filled(set, field.type_name()),
            _ => {
                encode_key(number, WireType::Varint, &mut bytes);
                encode_varint(1, &mut bytes);
                continue;
            }
        };
        encode_key(number, WireType::LengthDelimited, &mut bytes);
        encode_varint(u64::try_from(value.len()).unwrap(), &mut bytes);
        bytes.extend(value);
    }
    bytes
}

/// What makes a good message of it.
fn text(field: &FieldDescriptorProto) -> &'static str {
    match field.name() {
        "store" | "store_name" => "main",
        "namespace" => "default",
        "key" | "add" | "remove" | "prefix" | "after" | "page_token" => "t1/default/k",
        _ => "x",
    }
}

/// Sends a message and says what was wrong with it, if anything was.
async fn send(
    channel: &tonic::transport::Channel,
    method: &Method,
    message: Vec<u8>,
) -> Option<Status> {
    let answers = match method.takes_many {
        true => converse(channel, &method.path, None, vec![message]).await,
        false => call(channel, &method.path, None, message).await,
    };
    match answers {
        Ok(mut answers) => match within(&SystemClock, SOON, answers.message()).await.ok()? {
            Ok(told) if method.path.ends_with("/Exchange") => refused(&told?),
            told => told.err(),
        },
        Err(status) => Some(status),
    }
}

/// What was wrong with a call on a stream, as if it had been made by itself.
fn refused(message: &[u8]) -> Option<Status> {
    let mut answers = ExchangeResponse::decode(message).unwrap().answers;
    let Answer::Refusal(refusal) = answers.pop()?.answer? else { return None };
    let ExchangeRefusal { code, message, details } = refusal;
    Some(Status::with_details(Code::from(code), message, details.into()))
}

/// Whether it was a fault of the server's and not of the request.
fn is_fault(status: &Status) -> bool {
    // alpha1 tells of an owner or an expiry that no store takes as of a failure of the store.
    let is_refusal = status.message().contains("decode Protobuf")
        || (status.message().starts_with("failed to ") && status.message().contains("must"));
    match status.code() {
        Code::Unknown | Code::DataLoss | Code::Unavailable => true,
        Code::Internal => !is_refusal,
        _ => false,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_messages_are_answered_and_never_a_fault() {
    let running = server().await;
    let url = format!("http://{}", running.address());
    let channel = tonic::transport::Channel::from_shared(url).unwrap().connect().await.unwrap();
    let methods = methods();
    assert!(methods.len() > 20, "{methods:?}");
    for seed in seeds() {
        let mut dice = Dice(seed);
        let method = &methods[dice.roll(methods.len())];
        let message = dice.break_up(&method.message);
        if let Some(status) = send(&channel, method, message.clone()).await {
            let path = &method.path;
            assert!(!is_fault(&status), "{}\n{status} for {path} {message:?}", replay(seed));
        }
    }
    is_well(&running).await;
}

/// Otherwise only the first check of each method would be tried.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_broken_was_whole_before() {
    let running = server().await;
    let url = format!("http://{}", running.address());
    let channel = tonic::transport::Channel::from_shared(url).unwrap().connect().await.unwrap();
    for method in methods() {
        let status = send(&channel, &method, method.message.clone()).await;
        let code = status.as_ref().map_or(Code::Ok, Status::code);
        let is_taken = !matches!(code, Code::InvalidArgument | Code::Internal);
        assert!(is_taken, "{method:?}: {status:?}");
    }
}
