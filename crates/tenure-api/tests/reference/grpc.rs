//! The part of the reference that the protocol buffers make.

use prost::Message;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    FileDescriptorSet, MethodDescriptorProto,
};
use tenure_api::DESCRIPTORS;

use crate::table;

/// Where things stand in a descriptor, by the numbers of its fields.
const MESSAGE: i32 = 4;
const ENUM: i32 = 5;
const SERVICE: i32 = 6;
const FIELD: i32 = 2;
const METHOD: i32 = 2;
const VALUE: i32 = 2;
const NESTED_ENUM: i32 = 4;

pub(crate) fn reference() -> String {
    let set = FileDescriptorSet::decode(DESCRIPTORS).unwrap();
    let mut text =
        "## gRPC\n\nA `Duration` and a `Timestamp` are those of `google.protobuf`.\n\n".to_owned();
    for file in set.file.iter().filter(|file| !file.service.is_empty()) {
        for (at, service) in (0..).zip(&file.service) {
            text += &format!("### `{}.{}`\n\n", file.package(), service.name());
            text += &paragraphs(&comment(file, &[SERVICE, at]));
            let rows = (0..).zip(&service.method).map(|(number, method)| {
                let [takes, answers] = signature(method);
                let what = comment(file, &[SERVICE, at, METHOD, number]);
                vec![format!("`{}`", method.name()), takes, answers, what]
            });
            text += &table(&["method", "takes", "answers", ""], &rows.collect::<Vec<_>>());
        }
        for (at, message) in (0..).zip(&file.message_type) {
            text += &described(file, at, message);
        }
        for (at, told) in (0..).zip(&file.enum_type) {
            text += &format!("#### `{}`\n\n", told.name());
            text += &values(file, told, &[ENUM, at]);
        }
    }
    text
}

fn described(file: &FileDescriptorProto, at: i32, message: &DescriptorProto) -> String {
    let what = comment(file, &[MESSAGE, at]);
    // One without fields and without a word has nothing to tell.
    if message.field.is_empty() && what.is_empty() {
        return String::new();
    }
    let mut text = format!("#### `{}`\n\n{}", message.name(), paragraphs(&what));
    let rows = (0..).zip(&message.field).map(|(number, field)| {
        let what = comment(file, &[MESSAGE, at, FIELD, number]);
        vec![format!("`{}`", field.name()), field.number().to_string(), kind(field), what]
    });
    text += &table(&["field", "number", "type", ""], &rows.collect::<Vec<_>>());
    for (number, told) in (0..).zip(&message.enum_type) {
        text += &values(file, told, &[MESSAGE, at, NESTED_ENUM, number]);
    }
    text
}

fn values(file: &FileDescriptorProto, told: &EnumDescriptorProto, path: &[i32]) -> String {
    let rows = (0..).zip(&told.value).map(|(number, value)| {
        let what = comment(file, &[path, &[VALUE, number]].concat());
        vec![format!("`{}`", value.name()), value.number().to_string(), what]
    });
    table(&[&format!("`{}`", told.name()), "number", ""], &rows.collect::<Vec<_>>())
}

fn signature(method: &MethodDescriptorProto) -> [String; 2] {
    let one = |name: &str, is_stream: bool| {
        let stream = if is_stream { "stream of " } else { "" };
        format!("{stream}`{}`", last(name))
    };
    [
        one(method.input_type(), method.client_streaming()),
        one(method.output_type(), method.server_streaming()),
    ]
}

fn kind(field: &FieldDescriptorProto) -> String {
    let name = match field.r#type() {
        Type::Message | Type::Enum => format!("`{}`", last(field.type_name())),
        kind => kind.as_str_name().trim_start_matches("TYPE_").to_lowercase(),
    };
    match field.label() {
        Label::Repeated if name.ends_with("Entry`") => "map of string".to_owned(),
        Label::Repeated => format!("list of {name}"),
        _ => name,
    }
}

fn last(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// What the file says about the thing at this path.
fn comment(file: &FileDescriptorProto, path: &[i32]) -> String {
    let locations = file.source_code_info.iter().flat_map(|info| &info.location);
    let mut found = locations.filter(|location| location.path == path);
    let text = found.next().map(|location| location.leading_comments().to_owned());
    text.unwrap_or_default().trim().replace("\n ", "\n")
}

fn paragraphs(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("{text}\n\n") }
}
