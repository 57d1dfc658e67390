//! The generated modules are those that the files under `proto/` make.
//!
//! `TENURE_BLESS=1 cargo test -p tenure-api --test generated` writes them anew.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use prost::Message;

const DAPR: &str = "dapr/proto/runtime/v1/dapr.proto";
const FILES: [&str; 3] = ["tenure/v1/locks.proto", "tenure/v1/store.proto", DAPR];
const MADE: [&str; 4] =
    ["tenure.v1.rs", "dapr.proto.runtime.v1.rs", "descriptors.bin", "dapr_descriptors.bin"];

#[test]
fn the_generated_modules_are_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let made = tempfile::tempdir().unwrap();
    let descriptors = protox::compile(FILES, [root.join("proto")]).unwrap();
    fs::write(made.path().join("descriptors.bin"), descriptors.encode_to_vec()).unwrap();
    let dapr = protox::compile([DAPR], [root.join("proto")]).unwrap();
    fs::write(made.path().join("dapr_descriptors.bin"), dapr.encode_to_vec()).unwrap();
    tonic_prost_build::configure()
        .out_dir(made.path())
        .build_client(true)
        .build_server(true)
        .client_mod_attribute(".", "#[cfg(feature = \"grpc\")]")
        .server_mod_attribute(".", "#[cfg(feature = \"server\")]")
        .build_transport(false)
        .compile_fds(descriptors)
        .unwrap();
    let kept = root.join("src/generated");
    let bless = std::env::var_os("TENURE_BLESS").is_some();
    for name in MADE {
        let new = fs::read(made.path().join(name)).unwrap();
        if bless {
            fs::write(kept.join(name), &new).unwrap();
        }
        let same = fs::read(kept.join(name)).unwrap() == new;
        assert!(same, "{name} is not what proto/ makes; run this test with TENURE_BLESS=1");
    }
}
