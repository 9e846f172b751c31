import type { Command } from 'commander';
import type { Reasoning } from '../core/contracts/index.ts';
import { collect, httpUrl, idArgument, reasoningArgument, wholeNumber } from './arguments.ts';
import { type ModelFlags, vendorModels } from './model.ts';
import { anyStore, type StoreFlags } from './store.ts';
import type { TraceFlags } from './trace-view.ts';

/** What the command line says about turns, new and resumed ones. */
export interface TurnFlags extends ModelFlags, StoreFlags, TraceFlags {
  /** A module whose default export is an agent. */
  readonly agent?: string;
  /** A file of tools, in place of the built-in ones. */
  readonly tools?: string;
  /** MCP servers: commands, addresses, files. */
  readonly mcp?: readonly string[];
  readonly leaseMs?: number;
}

/** What it says about new turns; a resumed one finds it in its journal. */
export interface NewTurnFlags extends TurnFlags {
  readonly system?: string;
  readonly maxIterations?: number;
  readonly reasoning?: Reasoning;
}

/** Adds the options that all commands with turns share. */
export function addTurnFlags(command: Command): Command {
  return addOtlpFlag(
    addLeaseFlag(addStoreFlag(addModelFlags(command))).option('--trace', 'show the spans of each turn as a waterfall'),
  );
}

/** Adds the options that say which model answers, and what it is offered. */
export function addModelFlags(command: Command): Command {
  return command
    .option(
      '--base-url <url>',
      'an OpenAI-compatible server, e.g. a LiteLLM proxy (or OPENAI_BASE_URL, LITELLM_BASE_URL)',
      httpUrl('http://localhost:4000/v1'),
    )
    .option('--model <name>', `the model to use (or OPENAI_MODEL, LITELLM_MODEL); ${vendorModels} call the vendor`)
    .option(
      '--api-key-env <variable>',
      "the environment variable that holds the API key (default: OPENAI_API_KEY, or the vendor's own)",
    )
    .option(
      '--tools <file>',
      'an ES module whose default export is an array of tools or a tool provider, instead of the built-in ones',
    )
    .option(
      '--mcp <server>',
      'an MCP server whose tools are added: a command, an https address, or a JSON file of them; repeatable',
      collect,
    );
}

/** Adds the option that names an agent in place of a model and tools. */
export function addAgentFlag(command: Command): Command {
  return command.option(
    '--agent <file>',
    'an ES module whose default export is the agent, or the options of one, in place of a model and tools',
  );
}

/** Adds the options of an agent that others reach. */
export function addServedAgentFlags(command: Command): Command {
  return command
    .option('--system <text>', 'a system prompt')
    .option(
      '--workspace <folder>',
      'offer the built-in file tools, which read this folder for every caller (default: no file tools)',
    );
}

/** Adds the option that says how long a turn outlives its process. */
export function addLeaseFlag(command: Command): Command {
  return command.option(
    '--lease-ms <number>',
    'duration of the lease of a turn without a renewal (default: 10000)',
    wholeNumber(100, 3_600_000),
  );
}

/** Adds the option that says where spans go. */
export function addOtlpFlag(command: Command): Command {
  return command.option(
    '--otlp <url>',
    'send the spans to an OTLP receiver, e.g. http://localhost:4318',
    httpUrl('http://localhost:4318'),
  );
}

/** Adds the options of commands that start turns. */
export function addNewTurnFlags(command: Command): Command {
  return addTurnFlags(command)
    .option('--system <text>', 'a system prompt')
    .option('--max-iterations <number>', 'model calls a turn may make (default: 10)', wholeNumber(1))
    .option(
      '--reasoning <effort>',
      "how much the model reasons: none, minimal, low, medium, high or a number of tokens (default: the model's)",
      reasoningArgument,
    );
}

/** Adds the option that names a conversation. */
export function addContextFlag(command: Command): Command {
  return command.option(
    '--context-id <id>',
    'the id of the conversation; an existing one is continued (default: a new one)',
    idArgument,
  );
}

/** Adds the option that says where journals are. */
export function addStoreFlag(command: Command): Command {
  return command.option(
    '--store <where>',
    `store of the journals: ${anyStore} (or MILLRACE_STORE; default: lmdb in .millrace)`,
  );
}
