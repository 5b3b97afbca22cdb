//! Program that runs one fuzz target under libFuzzer. The environment variable `RECTO_FUZZ_TARGET` names the
//! target.
#![no_main]

use std::sync::LazyLock;

use recto_fuzz::{target, Target};

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("RECTO_FUZZ_TARGET").expect("RECTO_FUZZ_TARGET names the target");
    target::find(&name).unwrap_or_else(|| panic!("there is no target {name}"))
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| (TARGET.run)(data));
