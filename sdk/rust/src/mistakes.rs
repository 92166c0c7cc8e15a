//! Explains declarations that `skill!` cannot read: the compiler alone would say "no rules expected this token".

/// Finds the first tool with an invalid declaration.
#[doc(hidden)]
#[macro_export]
macro_rules! __explain_tools {
    // Valid tools are skipped.
    (
        $(#[$meta:meta])*
        $vis:vis fn $name:ident($input:ident : $ty:ty $(, $blobs:ident : $blobs_ty:ty)? $(,)?) -> $ret:ty $body:block
        $($rest:tt)*
    ) => {
        $crate::__explain_tools! { $($rest)* }
    };
    ($(#[$meta:meta])* $vis:vis async fn $name:ident $($rest:tt)*) => {
        $crate::__wrong_tool! { $name " is async, and tools are not async: remove `async` and `.await`. Host functions return their results directly" }
    };
    ($(#[$meta:meta])* $vis:vis fn $name:ident() $($rest:tt)*) => {
        $crate::__wrong_tool! { $name " has no input: give it one parameter, such as `_input: Nothing`, with #[derive(serde::Deserialize, schemars::JsonSchema)] struct Nothing {}" }
    };
    ($(#[$meta:meta])* $vis:vis fn $name:ident($input:ident : $ty:ty $(, $blobs:ident : $blobs_ty:ty)? $(,)?) $body:block $($rest:tt)*) => {
        $crate::__wrong_tool! { $name " returns nothing: write `-> Result<String>` before its body, and Ok(…) at its end" }
    };
    ($(#[$meta:meta])* $vis:vis fn $name:ident<$($rest:tt)*) => {
        $crate::__wrong_tool! { $name " is generic: its input has one type, which becomes its JSON Schema" }
    };
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($parameters:tt)*) $($rest:tt)*) => {
        $crate::__wrong_tool! { $name " needs one input: write `fn NAME(input: TYPE)`, where TYPE is a struct with a field for each value; a second parameter `files: Vec<Blob>` receives attachments" }
    };
    () => {
        ::core::compile_error!("skill! { … } needs at least one tool: /// What it does. fn name(input: TYPE) -> Result<String> { … }");
    };
    ($($rest:tt)*) => {
        ::core::compile_error!("skill! { … } has only functions: /// What it does. fn name(input: TYPE) -> Result<String> { … }. Put everything else outside of it");
    };
}

/// Reports a tool at the place of its name.
#[doc(hidden)]
#[macro_export]
macro_rules! __wrong_tool {
    ($name:ident $words:literal) => {
        ::core::compile_error!(::core::concat!("tool '", ::core::stringify!($name), "'", $words));
        // This error points at the line, unlike `compile_error!`.
        const _: $crate::rt::ToolDeclaration = $crate::rt::ToolDeclaration::$name;
    };
}
