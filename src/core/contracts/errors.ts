/** Every code an {@link AgentLoopError} can carry. Branch on these, never on the text of a message. */
export const errorCodes = [
  // What the caller gave is wrong.
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
  // The model and the way to it.
  'PROVIDER_UNREACHABLE',
  'PROVIDER_AUTH',
  'PROVIDER_NOT_FOUND',
  'PROVIDER_BAD_REQUEST',
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

/** A code of `AgentLoopError`. The guide on errors says when each comes and what to do. */
export type ErrorCode = (typeof errorCodes)[number];

/** What an `AgentLoopError` says besides its code and its message. */
export interface AgentLoopErrorOptions {
  /** Whether the same request may succeed later. Default `false`. */
  readonly retryable?: boolean | undefined;
  /** The error that led to this one. */
  readonly cause?: unknown;
  readonly taskId?: string | undefined;
  /** How long the other side asked us to wait before another try, in milliseconds. */
  readonly retryAfterMs?: number | undefined;
  /** Why a turn failed, where the code alone does not say: `max_cost`, … Default: the code in lower case. */
  readonly reason?: string | undefined;
  /** HTTP status, where the error came over HTTP. */
  readonly status?: number | undefined;
  /** The names and numbers of the message, as JSON: the option, the limit, what was found. */
  readonly details?: Readonly<Record<string, unknown>> | undefined;
}

/** A failure as data, in events and records. */
export interface ErrorData {
  readonly code: ErrorCode;
  /** For people; it may change from version to version. */
  readonly message: string;
  /** JSON: the names and numbers of the message. */
  readonly details?: Readonly<Record<string, unknown>>;
}

const marker = Symbol.for('millrace.AgentLoopError');

/**
 * The one error class of this library: a sentence that names the thing and the cure, and a `code` to branch on.
 * Carries ids, never a turn's state.
 */
export class AgentLoopError extends Error {
  override readonly name = 'AgentLoopError';
  readonly [marker] = true;
  /** Which error it is. Branch on this, never on the message. */
  readonly code: ErrorCode;
  /** Whether the same request may succeed later. */
  readonly retryable: boolean;
  /** The task that it belongs to, if any. */
  readonly taskId: string | undefined;
  /** How long the other side asked to wait before another try, in milliseconds. */
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

  /** True for an `AgentLoopError` of any installed copy of this package, also where `instanceof` fails. */
  static isInstance(value: unknown): value is AgentLoopError {
    return typeof value === 'object' && value !== null && marker in value;
  }
}

/** The text of anything that was thrown. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/** The name of anything that was thrown: an error's `name`, else `Error`. */
export function nameOf(thrown: unknown): string {
  return thrown instanceof Error && thrown.name !== '' ? thrown.name : 'Error';
}

/** An `INVALID_CONFIG` error: what is wrong, and the cure. */
export function invalidConfig(what: string, cure: string): AgentLoopError {
  return new AgentLoopError('INVALID_CONFIG', `${what}; ${cure}.`);
}

/**
 * For an optional package that is not installed, or is and does not load: then it says why. `install` is what `npm install` has to be
 * given; default: the package.
 */
export function missingPackage(name: string, cause: unknown, install = name): AgentLoopError {
  const isAbsent = /^Cannot find (package|module)/.test(messageOf(cause));
  const why = isAbsent ? '' : ` (${messageOf(cause).split('\n', 1)[0]})`;
  const message = `The package "${name}" cannot be loaded${why}; run \`npm install ${install}\`.`;
  return new AgentLoopError('MISSING_PACKAGE', message, { cause });
}
