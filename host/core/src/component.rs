/// The largest component, in bytes: twice what the largest language runtime that we know takes. A larger file is not read.
pub const COMPONENT_BYTES: u64 = 32 << 20;
