// SPDX-License-Identifier: Apache-2.0
//! Finds libminiocpp.so: in `S3RDMA_LIB_DIR`, else where pkg-config says, else where the linker
//! looks by itself.
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=S3RDMA_LIB_DIR");
    println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
    println!("cargo:rerun-if-changed=build.rs");
    let dirs = match std::env::var("S3RDMA_LIB_DIR") {
        Ok(dir) if !dir.is_empty() => {
            if !Path::new(&dir).join("libminiocpp.so").exists() {
                println!("cargo:warning=S3RDMA_LIB_DIR={} has no libminiocpp.so", dir);
            }
            vec![dir]
        }
        _ => pkg_config(),
    };
    for dir in dirs {
        println!("cargo:rustc-link-search=native={}", dir);
    }
    println!("cargo:rustc-link-lib=dylib=miniocpp");
}

/// None for folders where the linker looks anyway.
fn pkg_config() -> Vec<String> {
    let out = Command::new("pkg-config")
        .args(["--libs-only-L", "miniocpp"])
        .output();
    match out {
        Ok(out) if out.status.success() => String::from_utf8_lossy(&out.stdout)
            .split_whitespace()
            .filter_map(|flag| flag.strip_prefix("-L"))
            .map(str::to_string)
            .collect(),
        _ => Vec::new(),
    }
}
