//! The tools of {{name}}. There is no SDK for Zig: this file uses the C bindings that `make` generates from wit/, as
//! translated by `zig translate-c`. Copy what you need and make it yours.
const std = @import("std");
const c = @import("plugin");

/// Everything that is returned to the host is freed with C's allocator. The rest of the memory goes away with the call.
const memory = std.heap.c_allocator;

/// Smaller than the default handler, which prints; Patchbay shows a panic as a trap.
pub const panic = std.debug.no_panic;

const Result = union(enum) {
    text: []const u8,
    failure: struct { kind: []const u8, message: []const u8 },
};

const Tool = struct {
    name: []const u8,
    description: []const u8,
    /// JSON Schema of the input. The host checks inputs before `run` sees them.
    schema: []const u8,
    run: *const fn (input: []const u8) anyerror!Result,
};

const tools = [_]Tool{.{
    .name = "hello",
    .description = "Greets a person by name.",
    .schema =
    \\{"type":"object","properties":{"name":{"type":"string","description":"Name of the person to greet."}},
    \\"required":["name"],"additionalProperties":false}
    ,
    .run = hello,
}};

fn hello(json: []const u8) !Result {
    const Input = struct { name: []const u8 };
    const input = try std.json.parseFromSliceLeaky(Input, memory, json, .{ .duplicate_field_behavior = .use_last });
    if (isBlank(input.name)) return .{ .failure = .{ .kind = "invalid-input", .message = "the name is empty" } };
    return .{ .text = try std.fmt.allocPrint(memory, "Hello, {s}!", .{input.name}) };
}

/// Reports whether the text is empty or only Unicode white space.
fn isBlank(text: []const u8) bool {
    var points = std.unicode.Utf8View.initUnchecked(text).iterator();
    while (points.nextCodepoint()) |point| switch (point) {
        '\t'...'\r', ' ', 0x85, 0xa0, 0x1680, 0x2000...0x200a, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000 => {},
        else => return false,
    };
    return true;
}

// ---- The component's exports, which the C bindings call.

fn give(text: []const u8) c.plugin_string_t {
    const copy = memory.dupe(u8, text) catch unreachable;
    return .{ .ptr = copy.ptr, .len = copy.len };
}

fn slice(text: *const c.plugin_string_t) []const u8 {
    return text.ptr[0..text.len];
}

export fn exports_patchbay_skill_skill_tools(result: *c.exports_patchbay_skill_skill_list_tool_t) void {
    const list = memory.alloc(c.exports_patchbay_skill_skill_tool_t, tools.len) catch unreachable;
    for (tools, list) |tool, *to| {
        to.* = std.mem.zeroes(c.exports_patchbay_skill_skill_tool_t);
        to.name = give(tool.name);
        to.description = give(tool.description);
        to.input_schema = give(tool.schema);
    }
    result.* = .{ .ptr = list.ptr, .len = list.len };
}

export fn exports_patchbay_skill_skill_call(
    name: *c.plugin_string_t,
    input: *c.plugin_string_t,
    _: *c.exports_patchbay_skill_skill_list_blob_t,
    result: *c.exports_patchbay_skill_skill_list_content_t,
    failure: *c.exports_patchbay_skill_skill_failure_t,
) bool {
    const answer = run(slice(name), slice(input)) catch |err|
        Result{ .failure = .{ .kind = "failed", .message = @errorName(err) } };
    switch (answer) {
        .text => |text| {
            const content = memory.create(c.exports_patchbay_skill_skill_content_t) catch unreachable;
            content.tag = c.PATCHBAY_SKILL_TYPES_CONTENT_TEXT;
            content.val.text = give(text);
            result.* = .{ .ptr = content, .len = 1 };
            return true;
        },
        .failure => |why| {
            failure.* = .{ .kind = give(why.kind), .message = give(why.message) };
            return false;
        },
    }
}

fn run(name: []const u8, input: []const u8) !Result {
    for (tools) |tool| {
        if (std.mem.eql(u8, tool.name, name)) return tool.run(input);
    }
    return .{ .failure = .{ .kind = "unknown-tool", .message = "this skill has no such tool" } };
}
