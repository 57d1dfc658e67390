//! Requests that make no sense: each is answered with an error, and none is believed.

use serde_json::{Value, json};

use crate::stage::{Stage, document, lock};

/// Numbers that come the same way every time, from xorshift.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides as u64).unwrap()
    }
}

/// What all chance comes from; the variable sets another.
fn seed() -> u64 {
    let set = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    set.unwrap_or(0x5eed_f0a4_57c0_ffee)
}

fn nonsense(dice: &mut Dice) -> Value {
    match dice.roll(9) {
        0 => Value::Null,
        1 => json!(-1),
        2 => json!(1e300),
        3 => json!(""),
        4 => json!("\u{0}\u{1f512}"),
        5 => json!([]),
        6 => json!({}),
        7 => json!("x".repeat(600)),
        _ => json!({"value": {"value": []}, "unit": null}),
    }
}

/// Replaces one value of a document, wherever it stands.
fn spoil(document: &mut Value, dice: &mut Dice) {
    let mut here = document;
    loop {
        let many = match here {
            Value::Object(object) => object.len(),
            Value::Array(array) => array.len(),
            _ => 0,
        };
        if many == 0 || dice.roll(4) == 0 {
            *here = nonsense(dice);
            return;
        }
        let at = dice.roll(many);
        here = match here {
            Value::Object(object) => object.values_mut().nth(at).unwrap(),
            Value::Array(array) => &mut array[at],
            _ => return,
        };
    }
}

#[tokio::test]
async fn no_document_breaks_the_service() {
    let stage = Stage::new().await;
    let seed = seed();
    let mut dice = Dice(seed);
    for round in 0..3000 {
        let extensions = lock(json!({"block": {"value": 1, "unit": "millisecond"}}));
        let mut request = document("payments.charge", json!({"amount": 1}), extensions);
        for _ in 0..=dice.roll(3) {
            spoil(&mut request, &mut dice);
        }
        let mut body = request.to_string().into_bytes();
        if dice.roll(4) == 0 {
            let at = dice.roll(body.len());
            body[at] = u8::try_from(dice.roll(256)).unwrap();
        }
        let answer = stage.send(body, &[("content-type", "application/json")]).await;
        let known = [200, 400, 404, 408, 423];
        assert!(known.contains(&answer.status), "seed {seed} round {round}: {}", answer.text);
        let is_error = answer.json["errors"].is_array();
        assert_eq!(is_error, answer.status != 200, "seed {seed} round {round}: {}", answer.text);
    }
    let answer = stage.call("payments.charge", json!({}), lock(json!({}))).await;
    assert_eq!(answer.status, 200);
    assert!(!stage.locks.is_locked("lock:payments.charge:user:123").await.unwrap());
}

#[tokio::test]
async fn no_bytes_break_the_service() {
    let stage = Stage::new().await;
    let mut dice = Dice(seed());
    for _ in 0..2000 {
        let body: Vec<u8> =
            (0..dice.roll(64)).map(|_| u8::try_from(dice.roll(256)).unwrap()).collect();
        let answer = stage.send(body, &[("content-type", "application/json")]).await;
        assert_eq!(answer.status, 400, "{}", answer.text);
    }
    let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    let answer = stage.send(deep.clone(), &[("content-type", "application/json")]).await;
    assert_eq!(answer.code(), "INVALID_REQUEST");
    let request = document("payments.charge", json!({"x": "deep"}), Value::Null).to_string();
    let request = request.replace("\"deep\"", &deep);
    let answer = stage.send(request, &[("content-type", "application/json")]).await;
    assert_eq!((answer.code(), &answer.json["id"]), ("PARSE_ERROR", &Value::Null));
}
