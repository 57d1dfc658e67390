//! The part of the reference that the OpenAPI document makes.

use std::collections::BTreeMap;

use serde_json::Value;
use tenure_api::OPENAPI;

use crate::table;

pub(crate) fn reference() -> String {
    let document: Value = serde_json::from_str(OPENAPI).unwrap();
    let common = common(&document);
    let mut text = "## HTTP\n\nWhat needs a right may also answer with these, whose body is \
                    `Error`:\n\n"
        .to_owned();
    text += &table(&["status", ""], &common);
    for (path, item) in sorted(&document["paths"]) {
        for (method, operation) in operations(item) {
            text += &format!("### `{} {path}`\n\n", method.to_uppercase());
            let words = [&operation["summary"], &operation["description"]];
            let words: Vec<_> = words.iter().filter_map(|words| words.as_str()).collect();
            text += &format!("{}\n\n", sentences(&words));
            let parameters = [&item["parameters"], &operation["parameters"]];
            let parameters = parameters.iter().filter_map(|list| list.as_array()).flatten();
            let mut rows: Vec<_> =
                parameters.map(|it| parameter(resolved(&document, it))).collect();
            let body = &operation["requestBody"]["content"]["application/json"]["schema"];
            rows.extend(fields(resolved(&document, body), "body"));
            text += &table(&["takes", "in", "type", ""], &rows);
            let answers = sorted(&operation["responses"]);
            let answers =
                answers.into_iter().map(answer).filter(|row| !common.contains(&short(row)));
            text += &table(&["status", "body", ""], &answers.collect::<Vec<_>>());
        }
    }
    text + &schemas(&document)
}

/// By name, whichever order the reader of JSON keeps.
fn sorted(object: &Value) -> BTreeMap<&String, &Value> {
    object.as_object().into_iter().flatten().collect()
}

fn operations(item: &Value) -> impl Iterator<Item = (&String, &Value)> {
    sorted(item).into_iter().filter(|(name, _)| *name != "parameters")
}

/// What every route with rights answers.
fn common(document: &Value) -> Vec<Vec<String>> {
    let items = sorted(&document["paths"]).into_values();
    let guarded = items.flat_map(operations).filter(|(_, told)| told.get("security").is_none());
    let mut answers = guarded.map(|(_, operation)| {
        let responses = sorted(&operation["responses"]);
        responses.into_iter().map(|response| short(&answer(response))).collect::<Vec<_>>()
    });
    let first = answers.next().unwrap();
    answers
        .fold(first, |common, other| common.into_iter().filter(|row| other.contains(row)).collect())
}

/// An answer without its body.
fn short(row: &[String]) -> Vec<String> {
    vec![row[0].clone(), row[2].clone()]
}

fn answer((status, response): (&String, &Value)) -> Vec<String> {
    let bodies: Vec<_> = sorted(&response["content"])
        .into_iter()
        .map(|(kind, body)| match (&**kind, type_of(&body["schema"])) {
            ("application/json", body) => body,
            (_, body) if body.is_empty() => format!("`{kind}`"),
            (_, body) => format!("`{kind}` of {body}"),
        })
        .collect();
    vec![status.clone(), bodies.join(", "), words(&response["description"])]
}

fn parameter(told: &Value) -> Vec<String> {
    let name = format!("`{}`", told["name"].as_str().unwrap());
    let kind = type_of(&told["schema"]);
    vec![name, words(&told["in"]), kind, words(&told["description"])]
}

/// The rows of an object's fields.
fn fields(schema: &Value, place: &str) -> Vec<Vec<String>> {
    sorted(&schema["properties"])
        .into_iter()
        .map(|(name, told)| {
            let what = words(&told["description"]);
            vec![format!("`{name}`"), place.to_owned(), type_of(told), what]
        })
        .collect()
}

/// What the bodies are made of.
fn schemas(document: &Value) -> String {
    let mut text = "### Bodies\n\n".to_owned();
    for (name, schema) in sorted(&document["components"]["schemas"]) {
        // Those of requests stand with their routes.
        if name.ends_with("Request") {
            continue;
        }
        text += &format!("#### `{name}`\n\n");
        let one_of = schema["oneOf"].as_array();
        let objects = one_of.map_or_else(|| vec![schema], |all| all.iter().collect());
        if one_of.is_some() {
            text += "One of these:\n\n";
        }
        for object in objects {
            let required: Vec<_> = object["required"].as_array().unwrap().iter().collect();
            let rows = fields(object, "").into_iter().map(|mut row| {
                let name = row[0].trim_matches('`').to_owned();
                row[1] = match required.iter().any(|it| **it == *name) {
                    true => "always".to_owned(),
                    false => "where it is known".to_owned(),
                };
                row
            });
            text += &table(&["field", "there", "type", ""], &rows.collect::<Vec<_>>());
        }
    }
    text
}

fn type_of(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str() {
        return format!("`{}`", name.rsplit('/').next().unwrap());
    }
    if let Some(only) = schema["const"].as_str() {
        return format!("`\"{only}\"`");
    }
    let choice = |all: &Value, show: fn(&Value) -> String| {
        all.as_array().map(|all| all.iter().map(show).collect::<Vec<_>>().join(" or "))
    };
    if let Some(one_of) = choice(&schema["oneOf"], type_of) {
        return one_of;
    }
    if let Some(values) = choice(&schema["enum"], |value| format!("`{value}`")) {
        return values;
    }
    match &schema["type"] {
        Value::String(name) if name == "array" => match &schema["items"]["properties"] {
            inner @ Value::Object(_) => format!("list of {}", keys(inner)),
            _ => format!("list of {}", type_of(&schema["items"])),
        },
        Value::String(name) => name.clone(),
        Value::Array(_) => choice(&schema["type"], words).unwrap(),
        _ => String::new(),
    }
}

fn keys(properties: &Value) -> String {
    let names: Vec<_> = sorted(properties).into_keys().map(|name| format!("`{name}`")).collect();
    format!("{{{}}}", names.join(", "))
}

fn words(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn sentences(parts: &[&str]) -> String {
    let ended = |part: &&str| match part.ends_with('.') {
        true => (*part).to_owned(),
        false => format!("{part}."),
    };
    parts.iter().map(ended).collect::<Vec<_>>().join(" ")
}

fn resolved<'a>(document: &'a Value, told: &'a Value) -> &'a Value {
    match told["$ref"].as_str() {
        Some(target) => document.pointer(target.trim_start_matches('#')).unwrap(),
        None => told,
    }
}
