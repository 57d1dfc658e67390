//! A complete service: `cargo run -p tenure-forrst --example payments`.

use serde::Deserialize;
use serde_json::{Value, json};
use tenure_forrst::{Call, Fault, Forrst};

#[derive(Deserialize)]
struct Charge {
    user_id: String,
    amount: u64,
}

async fn charge(call: Call, charge: Charge) -> Result<Value, Fault> {
    if charge.amount == 0 {
        return Err(Fault::custom("NOTHING_TO_CHARGE", "amount must not be zero"));
    }
    // Write with the fence: whoever comes late under an older one can be told apart.
    let fence = call.fence().map(|fence| fence.get());
    Ok(json!({"charged": charge.user_id, "amount": charge.amount, "fence": fence}))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let locks = tenure::Locks::open("file:locks.db").await?;
    let forrst = Forrst::new(locks).function("payments.charge", "1.0.0", charge).service();
    let app = axum::Router::new().route_service("/forrst", forrst);
    let address = std::env::args().nth(1).unwrap_or("127.0.0.1:8080".into());
    let listener = tokio::net::TcpListener::bind(address).await?;
    Ok(axum::serve(listener, app).await?)
}
