//! The binary as a user runs it: documented texts, stored sessions, and recovery. See `patchbay_tests` for the helpers.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod acp_files;
mod acp_options;
#[cfg(target_os = "linux")]
mod acp_peers;
mod acp_prompts;
#[cfg(unix)]
mod acp_servers;
mod acp_sessions;
mod acp_terminal;
mod adapter_test;
mod adapters;
mod agent_crashes;
mod agent_model;
mod agent_plugins;
mod agent_races;
mod agent_restarts;
#[cfg(target_os = "linux")]
mod agent_thousand;
mod agents;
mod artefacts;
mod asking;
mod attachments;
mod backup;
mod blocks;
mod bounds;
mod budget;
mod building;
mod bundled;
#[cfg(target_os = "linux")]
mod cage;
mod call_info;
mod catalogue;
mod claude_plugins;
mod code;
mod commands;
mod compaction;
mod conversation;
mod crashes;
mod credentials;
mod determinism;
#[cfg(unix)]
mod doctor;
mod documents;
mod durability;
mod editor;
#[cfg(unix)]
mod ending;
mod exec;
mod exec_agents;
mod first_start;
mod grants;
#[cfg(unix)]
mod home;
mod hostile_schemas;
mod hot_add;
mod http;
mod inference;
mod invocation;
mod journal;
mod json_outputs;
#[cfg(unix)]
mod key_commands;
mod languages;
mod lines;
mod linked;
mod mcp_http;
mod mcp_server;
mod mcp_tools;
mod menu;
mod models;
mod modes;
mod nested;
mod old_homes;
mod old_sessions;
#[cfg(unix)]
mod other_sessions;
mod package_addresses;
mod package_crashes;
mod package_registries;
mod package_servers;
mod packages;
mod personas;
#[cfg(unix)]
mod piped_input;
mod plugin;
mod plugin_add;
mod plugin_call;
mod plugin_dev;
mod plugin_test;
mod policies;
mod portable;
#[cfg(target_os = "linux")]
mod programs;
mod provider_adapters;
mod provider_command;
mod provider_secrets;
mod provider_servers;
mod providers;
mod queue;
mod recording;
mod recovery;
mod reload;
mod replacing;
mod rewind;
mod searching;
mod seed_examples;
#[cfg(unix)]
mod serve;
mod serve_api;
mod serve_cuts;
mod serve_refusals;
mod serve_routes;
mod services;
mod session_archive;
mod sessions;
mod shell;
mod shown;
mod skill_files;
mod skill_forms;
mod skill_shapes;
mod skills;
mod snapshot;
mod steering;
#[cfg(unix)]
mod take_over;
mod task_list;
mod terminal;
mod tokens;
mod told;
mod undo;
mod unsaved_files;
mod waiting;
