import { withoutForms } from './secret-forms.ts';

/** Every code of an {@link AgentLoopError}. Branch on these, never on the text of a message. */
export const errorCodes = [
  // Invalid arguments of the caller.
  'INVALID_CONFIG',
  'INVALID_INPUT',
  'DUPLICATE_TOOL',
  'MISSING_TOOL',
  'MISSING_AGENT',
  'MISSING_PACKAGE',
  // How a turn ends when it does not complete.
  'CANCELED',
  'MAX_ITERATIONS',
  'LENGTH',
  'CONTENT_FILTER',
  'EMPTY_RESPONSE',
  'LIMIT',
  'PARSE_ERROR',
  'GUARDRAIL',
  'REJECTED',
  // Tools.
  'TOOL_NOT_FOUND',
  'TOOL_ARGUMENTS',
  'TOOL_FAILED',
  'TOOL_TIMEOUT',
  'TOOL_ABANDONED',
  'TOOL_REJECTED',
  'TOOL_TOO_LARGE',
  'TOOL_SKIPPED',
  'OUTCOME_UNKNOWN',
  // The model and the connection to it.
  'PROVIDER_UNREACHABLE',
  'PROVIDER_AUTH',
  'PROVIDER_NOT_FOUND',
  'PROVIDER_BAD_REQUEST',
  'CONTEXT_OVERFLOW',
  'PROVIDER_RATE_LIMIT',
  'PROVIDER_SERVER',
  'PROVIDER_PROTOCOL',
  'PROVIDER_STREAM_CLOSED',
  'PROVIDER_TIMEOUT',
  'PROVIDER_TOO_LARGE',
  'PROVIDER_FAILED',
  // The journal.
  'UNAVAILABLE',
  'FULL',
  'FENCED',
  'REWOUND',
  'BUSY',
  'TERMINAL',
  'NOT_FOUND',
  'CONFLICT',
  'SCHEMA',
  'POISON',
  'SHUTDOWN',
  'LEFT',
  // Extensions and agents.
  'EXTENSION_FAILED',
  'AGENT_BUSY',
  // Replays.
  'DEVIATION',
  // A defect in this library.
  'INTERNAL',
] as const;

/** A code of `AgentLoopError`. The guide on errors says when each occurs and what to do. */
export type ErrorCode = (typeof errorCodes)[number];

/** Properties of an `AgentLoopError` besides its code and its message. */
export interface AgentLoopErrorOptions {
  /** Whether the same request may succeed later. Default `false`. */
  readonly retryable?: boolean | undefined;
  /** The error that led to this one. */
  readonly cause?: unknown;
  readonly taskId?: string | undefined;
  /** The delay before a retry that the server requested, in milliseconds. */
  readonly retryAfterMs?: number | undefined;
  /** Why a turn failed, if the code alone does not tell: `max_cost`, … Default: the code in lower case. */
  readonly reason?: string | undefined;
  /** HTTP status, if the error is an HTTP response. */
  readonly status?: number | undefined;
  /** The names and numbers of the message, as JSON: the option, the limit, the actual value. */
  readonly details?: Readonly<Record<string, unknown>> | undefined;
}

/** A failure as data, in events and records. */
export interface ErrorData {
  readonly code: ErrorCode;
  /** For people; it may change between versions. */
  readonly message: string;
  /** JSON: the names and numbers of the message. */
  readonly details?: Readonly<Record<string, unknown>>;
}

const marker = Symbol.for('millrace.AgentLoopError');

/**
 * The one error class of this library: a sentence that names the problem and the fix, and a `code` to branch on.
 * Contains ids, never a turn's state.
 */
export class AgentLoopError extends Error {
  override readonly name = 'AgentLoopError';
  readonly [marker] = true;
  /** Which error it is. Branch on this, never on the message. */
  readonly code: ErrorCode;
  /** Whether the same request may succeed later. */
  readonly retryable: boolean;
  /** The task that it is about, if any. */
  readonly taskId: string | undefined;
  /** The delay before a retry that the server requested, in milliseconds. */
  readonly retryAfterMs: number | undefined;
  readonly status: number | undefined;
  readonly reason: string;
  /** JSON: the names and numbers of the message. */
  readonly details: Readonly<Record<string, unknown>> | undefined;

  constructor(code: ErrorCode, message: string, options: AgentLoopErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.retryable = options.retryable ?? false;
    this.taskId = options.taskId;
    this.retryAfterMs = options.retryAfterMs;
    this.status = options.status;
    this.reason = options.reason ?? code.toLowerCase();
    this.details = options.details;
  }

  /** True for an `AgentLoopError` of any installed copy of this package, also if `instanceof` fails. */
  static isInstance(value: unknown): value is AgentLoopError {
    return typeof value === 'object' && value !== null && marker in value;
  }
}

/** The message of any thrown value. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/**
 * The message of a foreign error, for an error of ours: journals, clients and logs get it, so what looks like a secret is removed. The `cause` keeps it.
 */
export function reasonOf(thrown: unknown): string {
  return AgentLoopError.isInstance(thrown) ? thrown.message : withoutForms(messageOf(thrown));
}

/** The name of any thrown value: an error's `name`, else `Error`. */
export function nameOf(thrown: unknown): string {
  return thrown instanceof Error && thrown.name !== '' ? thrown.name : 'Error';
}

/** An `INVALID_CONFIG` error: what is wrong, and the fix. */
export function invalidConfig(what: string, cure: string): AgentLoopError {
  return new AgentLoopError('INVALID_CONFIG', `${what}; ${cure}.`);
}

/**
 * The error for an optional package that is not installed, or that fails to load, with the cause. `install`: the argument of `npm install`;
 * default: the package.
 */
export function missingPackage(name: string, cause: unknown, install = name): AgentLoopError {
  const isAbsent = /^Cannot find (package|module)/.test(messageOf(cause));
  const why = isAbsent ? '' : ` (${messageOf(cause).split('\n', 1)[0]})`;
  const message = `The package "${name}" cannot be loaded${why}; run \`npm install ${install}\`.`;
  return new AgentLoopError('MISSING_PACKAGE', message, { cause });
}

/** Whether a turn waits for a part that this process does not have: a tool, an MCP server, an agent. Another process may have it, or this one later. */
export function isMissingPart(code: ErrorCode | undefined): boolean {
  return code === 'MISSING_TOOL' || code === 'MISSING_AGENT';
}
