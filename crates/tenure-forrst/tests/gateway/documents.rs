//! What the other server is sent, and what of its answer the caller gets.

use serde_json::{Value, json};

use crate::stage::{LONG, Stage, lock, lock_and};

/// A request with these members for `call` and besides.
fn request(call: &str, more: &str) -> String {
    let protocol = r#"{"name":"forrst","version":"0.1.0"}"#;
    format!(r#"{{"protocol":{protocol},"id":"x","call":{{{call}}}{more}}}"#)
}

/// What the other server was sent.
fn seen(answer: &Value) -> Value {
    serde_json::from_str(answer["result"]["request"].as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn what_others_may_read_in_another_way_is_not_handed_on() {
    let stage = Stage::new(LONG).await;
    let echo = r#""function":"test.echo","arguments":{}"#;
    let forged = r#"{"atomic_lock":{"key":"k","fence":999}}"#;
    let locked = format!(r#","extensions":{}"#, lock(json!({})));
    for (call, more, pointer) in [
        (echo, format!(r#","context":{forged},"context":{{}}"#), "/context"),
        (echo, format!(r#","context":{{}},"Context":{forged}"#), "/Context"),
        (echo, r#","context":{"a":1,"a":2}"#.to_owned(), "/context/a"),
        (echo, r#","context":{"Atomic_Lock":{"fence":9}}"#.to_owned(), "/context/Atomic_Lock"),
        (r#""function":"test.echo","function":"test.fail""#, locked.clone(), "/call/function"),
        (r#""function":"test.echo","Function":"test.fail""#, locked.clone(), "/call/Function"),
        (
            r#""function":"test.echo","arguments":{},"arguments":{}"#,
            locked.clone(),
            "/call/arguments",
        ),
        (echo, format!(r#","call":{{"function":"test.fail"}}{locked}"#), "/call"),
        (echo, r#","id":"y""#.to_owned(), "/id"),
        (echo, r#","extensions":[{"urn":"a","urn":"b"}]"#.to_owned(), "/extensions/0/urn"),
        (r#""function":"test\u0007echo""#, locked.clone(), "/call/function"),
        (
            echo,
            locked.replace("\"ttl\"", "\"Scope\":\"global\",\"ttl\""),
            "/extensions/0/options/Scope",
        ),
    ] {
        let (status, answer) = stage.send(request(call, &more)).await;
        assert_eq!((status, &answer["errors"][0]["code"]), (400, &json!("INVALID_REQUEST")));
        assert_eq!(answer["errors"][0]["source"]["pointer"], pointer, "{answer}");
    }
    assert_eq!(stage.count("test.echo").await + stage.count("test.fail").await, 0);
}

#[tokio::test]
async fn what_is_only_handed_on_need_not_be_understood() {
    let stage = Stage::new(LONG).await;
    for extensions in [json!([]), lock(json!({}))] {
        let arguments = r#"{"n":1e400,"s":"\ud800","n":[1]}"#;
        let call = format!(r#""function":"test.echo","arguments":{arguments}"#);
        let more = format!(r#","context":{{"c": 1e999}},"extensions":{extensions}"#);
        let (status, answer) = stage.send(request(&call, &more)).await;
        assert_eq!(status, 200, "{answer}");
        let seen = answer["result"]["request"].as_str().unwrap();
        assert!(seen.contains(arguments) && seen.contains("1e999"), "{seen}");
    }
}

#[tokio::test]
async fn what_is_left_of_a_deadline_is_told_in_the_caller_s_words() {
    let stage = Stage::new(LONG).await;
    let far = "2999-01-01T00:00:00Z";
    let amount = json!({"value": 20, "unit": "second"});
    for options in [
        amount.clone(),
        json!({"timeout": amount}),
        json!({"deadline": far}),
        json!({"value": far, "unit": "iso8601"}),
    ] {
        let deadline = json!({"urn": "urn:forrst:ext:deadline", "options": options});
        let (status, answer) = stage.call("test.echo", json!({}), lock_and(&[deadline])).await;
        assert_eq!(status, 200, "{answer}");
        let mut left = seen(&answer)["extensions"][0]["options"].clone();
        for amount in ["", "/timeout"] {
            let Some(amount) = left.pointer_mut(amount) else { continue };
            if amount["unit"] == "millisecond" {
                let value = amount["value"].as_u64().unwrap();
                assert!((1..=20_000).contains(&value), "{value}");
                *amount = json!({"value": 20, "unit": "second"});
            }
        }
        assert_eq!(left, options);
    }
}

#[tokio::test]
async fn the_other_server_does_not_hide_the_lock_of_the_call() {
    let stage = Stage::new(LONG).await;
    for urn in ["urn:forrst:ext:atomicLock", "urn:cline:forrst:ext:atomic-lock"] {
        let told = json!([{"urn": urn, "data": {"owner": "mallory"}}, {"urn": "urn:x"}]);
        let (_, answer) =
            stage.call("test.tell", json!({"extensions": told}), lock(json!({}))).await;
        assert!(!answer.to_string().contains("mallory"), "{answer}");
        let urns: Vec<_> = answer["extensions"].as_array().unwrap().iter().collect();
        assert_eq!(urns[0], &json!({"urn": "urn:x"}));
        assert_eq!(urns[1]["data"]["acquired"], true, "{answer}");
        assert_eq!(urns.len(), 2);
    }
}

#[tokio::test]
async fn the_lock_is_among_what_the_other_server_can_do() {
    let stage = Stage::new(LONG).await;
    let (quota, version) = (json!({"urn": "urn:x:forrst:ext:quota"}), "1.0.0");
    let ours = ["urn:forrst:ext:atomicLock", "urn:cline:forrst:ext:atomic-lock"]
        .map(|urn| json!({"urn": urn, "version": version}));
    for function in ["fn:capabilities", "ext:discovery:fn:capabilities"] {
        let function = format!("urn:cline:forrst:{function}");
        for theirs in [json!({}), json!({"extensions": [quota]}), json!({"extensions": [ours[0]]})]
        {
            let (_, answer) = stage.call(&function, theirs.clone(), Value::Null).await;
            assert_eq!(answer["result"]["service"], "py");
            let told = answer["result"]["extensions"].as_array().unwrap();
            assert!(ours.iter().all(|ours| told.contains(ours)), "{answer}");
            let is_theirs = theirs["extensions"][0] == quota;
            assert_eq!(told.len(), if is_theirs { 3 } else { 2 }, "{answer}");
        }
    }
}

#[tokio::test]
async fn the_rest_of_an_answer_is_as_it_came() {
    let stage = Stage::new(LONG).await;
    for (extensions, more) in [(Value::Null, ""), (lock(json!({})), ",\"extensions\":[")] {
        let text = stage.text("test.echo", json!({}), extensions).await;
        let start =
            r#"{"protocol": {"name": "forrst", "version": "0.1.0"}, "id": "req_1", "result""#;
        assert!(text.starts_with(start) && text.contains(more), "{text}");
    }
}
