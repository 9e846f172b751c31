import { type BodyLimits, defaultBodyLimits, type LimitError, nestedTooDeep } from '../body-limits.ts';
import {
  AgentLoopError,
  isObject,
  type LLMProvider,
  type Logger,
  shownValue,
  type ToolListContext,
  type ToolPolicy,
} from '../core/contracts/index.ts';
import {
  aBoolean,
  aFunction,
  anything,
  aString,
  assertGiven,
  assertOptions,
  hasMethods,
  type OptionRule,
  type OptionRules,
  oneOf,
  someStrings,
  wholeNumber,
} from '../options/option-rules.ts';
import { checkAuth, type McpAuth } from './sign-in/auth-options.ts';

/** A tool as its server describes it. */
export interface McpToolInfo {
  /** The server's name in the options. */
  readonly server: string;
  /** The tool's name at the server, without prefix. */
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  /** What the server says of its effects. A server can be wrong, or lie. */
  readonly annotations: McpAnnotations;
}

/** What a server says of a tool. Hints, which nobody has checked. */
export interface McpAnnotations {
  /** The tool changes nothing. */
  readonly readOnlyHint?: boolean;
  /** The tool may destroy something. */
  readonly destructiveHint?: boolean;
  /** The tool can be called again without another effect. */
  readonly idempotentHint?: boolean;
  /** The tool reaches things beyond its server. */
  readonly openWorldHint?: boolean;
}

/** Whether a call of this tool has to be approved. */
export type McpNeedsApproval = (
  tool: McpToolInfo,
  args: unknown,
  context: ToolListContext,
) => boolean | Promise<boolean>;

/** A model call that a server asks for. */
export interface McpSamplingOptions {
  /** Who answers. */
  readonly provider: LLMProvider;
  /** Default: the provider's own. What the server prefers is not followed. */
  readonly model?: string | undefined;
  /** The most tokens of one answer, also where the server asks for more. Default 1,024. */
  readonly maxTokens?: number | undefined;
  /** Model calls that one tool call may cause. Default 5. */
  readonly maxRequests?: number | undefined;
}

/** Options of questions that a server asks in a call. */
export interface McpElicitationOptions {
  /**
   * How long the call stays open at the server while its question waits for an answer. Milliseconds; default 600,000. Where the answer
   * comes later, or in another process, the tool is called again.
   */
  readonly holdMs?: number | undefined;
}

/** Which revisions of MCP to speak: the newest that both sides know, those before 2026-07-28 only, or 2026-07-28 only. */
export type McpProtocol = 'auto' | 'legacy' | '2026-07-28';

export const defaultProtocol: McpProtocol = 'auto';

interface McpServerSettings {
  /** Default `auto`: the server is asked, and the answer is remembered for reconnects. */
  readonly protocol?: McpProtocol | undefined;
  /** Whether a turn fails where this server cannot be reached when it starts. Default false: the turn goes without its tools. */
  readonly required?: boolean | undefined;
  /** In front of the tools' names. Default: the server's name and `__`; `''` for none. */
  readonly prefix?: string | undefined;
  /** The tools to offer, by their names at the server. Default: all. */
  readonly tools?: readonly string[] | undefined;
  /** Whether the model gets the tools `list_resources` and `read_resource`. Default false. */
  readonly resources?: boolean | undefined;
  /** Whether the model gets the tools `list_prompts` and `get_prompt`. Default false. */
  readonly prompts?: boolean | undefined;
  /** Folders, or `file:` URLs, that are the server's roots. Default: none. */
  readonly roots?: readonly string[] | undefined;
  /** How long a call may go without progress. Milliseconds; default 60,000; each progress notification restarts it. */
  readonly timeoutMs?: number | undefined;
  /** How long a call may take in all, waiting for answers not counted. Milliseconds; default 600,000. */
  readonly maxTimeMs?: number | undefined;
  /** How long the server may take to start, and to list its tools, and the function `headers` to answer. Milliseconds; default 30,000. */
  readonly connectTimeoutMs?: number | undefined;
  /** The most that one response over HTTP may be, decompressed, in bytes. Default 32 MiB. */
  readonly maxBodyBytes?: number | undefined;
  /** The most that one message may be, an event over HTTP or a line of a process, in bytes. Default 4 MiB. */
  readonly maxEventBytes?: number | undefined;
  /** Whether the server may ask the user: each question becomes one of the turn. Default true. */
  readonly elicitation?: boolean | McpElicitationOptions | undefined;
  /** Lets the server ask a model. Default: it may not. */
  readonly sampling?: McpSamplingOptions | undefined;
  /** Whether the server's annotations set the policies of its tools. Default true. */
  readonly trustAnnotations?: boolean | undefined;
  /** Calls that have to be approved: all, those of tools that may destroy something, or as the function says. Default false. */
  readonly needsApproval?: boolean | 'destructive' | McpNeedsApproval | undefined;
  /** Put over the policy that comes of the annotations. */
  readonly policy?: ((tool: McpToolInfo) => ToolPolicy) | undefined;
}

/** A server that is a process of its own, spoken to over its stdin and stdout. */
export interface McpProcessOptions extends McpServerSettings {
  /** Started without a shell. */
  readonly command: string;
  /** Its arguments. Default none. */
  readonly args?: readonly string[] | undefined;
  /** Added to `HOME`, `PATH` and the like; nothing else of this process's environment is handed on. */
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** Default: the working folder of this process. */
  readonly cwd?: string | undefined;
  /** How long the process may take to end once its stdin is closed, and once more after SIGTERM, before it is killed. Milliseconds; default 1,500. */
  readonly closeGraceMs?: number | undefined;
}

/** A server that is reached over streamable HTTP. */
export interface McpHttpOptions extends McpServerSettings {
  readonly url: string | URL;
  /** Sent with each request, or a function that is asked before each; for credentials. Never logged, traced, or shown in an error. */
  readonly headers?: McpHeaders | (() => McpHeaders | Promise<McpHeaders>) | undefined;
  /** How the user signs in, by OAuth. Default: only `headers` hold credentials. */
  readonly auth?: McpAuth | undefined;
}

/** HTTP headers by name. */
export type McpHeaders = Readonly<Record<string, string>>;

/** How to reach a server: a program that speaks over stdio, or an address. */
export type McpServerOptions = McpProcessOptions | McpHttpOptions;

/** Options of `mcpTools`: the servers, and what holds for all of them. */
export interface McpToolsOptions {
  /** By name: letters, digits, `_` and `-`. */
  readonly servers: Readonly<Record<string, McpServerOptions>>;
  /** What errors call this provider. Default `mcpTools`. */
  readonly name?: string | undefined;
  /** How long to leave a server alone that cannot be reached: the first time, and at most, doubling in between. */
  readonly reconnect?: McpReconnectOptions | undefined;
  /** Told of servers that are lost, and of tools that are left out. Silent by default. */
  readonly logger?: Logger | undefined;
}

/** The pauses between attempts to reach a server. */
export interface McpReconnectOptions {
  /** Milliseconds; default 500. */
  readonly initialMs?: number | undefined;
  /** Milliseconds; default 30,000. */
  readonly maxMs?: number | undefined;
}

const someMs: OptionRule = {
  fits: (value) => typeof value === 'number' && value > 0 && value <= 2_147_483_647,
  must: 'be milliseconds, more than 0',
};
const stringMembers: OptionRule = {
  fits: (value) => isObject(value) && Object.values(value).every((each) => typeof each === 'string'),
  must: 'be an object of strings',
};
const toolsRules: OptionRules<McpToolsOptions> = {
  servers: anything,
  name: anything,
  reconnect: anything,
  logger: anything,
};
const reconnectRules: OptionRules<McpReconnectOptions> = { initialMs: someMs, maxMs: someMs };
const elicitationRules: OptionRules<McpElicitationOptions> = { holdMs: someMs };
const samplingRules: OptionRules<McpSamplingOptions> = {
  provider: { fits: (value) => hasMethods(value, ['call']), must: 'be the LLMProvider that answers the server' },
  model: anything,
  maxTokens: wholeNumber(1),
  maxRequests: wholeNumber(1),
};
const sharedRules: OptionRules<McpServerSettings> = {
  protocol: oneOf(...(['auto', 'legacy', '2026-07-28'] satisfies McpProtocol[])),
  required: aBoolean,
  prefix: {
    fits: (value) => typeof value === 'string' && /^[a-zA-Z0-9_-]{0,40}$/.test(value),
    must: 'be at most 40 of a-z, A-Z, 0-9, _ and -',
  },
  tools: someStrings,
  resources: aBoolean,
  prompts: aBoolean,
  roots: someStrings,
  timeoutMs: someMs,
  maxTimeMs: someMs,
  connectTimeoutMs: someMs,
  maxBodyBytes: wholeNumber(1),
  maxEventBytes: wholeNumber(1),
  elicitation: anything,
  sampling: anything,
  trustAnnotations: aBoolean,
  needsApproval: {
    fits: (value) => typeof value === 'boolean' || value === 'destructive' || typeof value === 'function',
    must: 'be true, false, "destructive" or a function',
  },
  policy: aFunction,
};
const processRules: OptionRules<McpProcessOptions> = {
  ...sharedRules,
  command: {
    fits: (value) => typeof value === 'string' && value.trim() !== '',
    must: 'be the name of a program',
  },
  args: { ...someStrings, secret: true },
  env: { ...stringMembers, secret: true },
  cwd: aString,
  closeGraceMs: someMs,
};
const httpRules: OptionRules<McpHttpOptions> = {
  ...sharedRules,
  url: anything,
  headers: {
    fits: (value) => typeof value === 'function' || stringMembers.fits(value),
    must: 'be an object of strings, such as { Authorization: "Bearer …" }, or a function',
    secret: true,
  },
  auth: anything,
};

/** Throws `INVALID_CONFIG`, naming the server, the option and the cure. No value that may hold a secret is repeated. */
export function checkMcpOptions(options: McpToolsOptions): void {
  assertOptions('mcpTools', options, toolsRules);
  if (options.reconnect !== undefined) assertOptions('mcpTools: reconnect', options.reconnect, reconnectRules);
  const servers: unknown = options.servers;
  if (!isObject(servers) || Object.keys(servers).length === 0)
    throw invalid('mcpTools: servers names no server; write { servers: { files: { command: "npx", args: […] } } }');
  for (const [name, server] of Object.entries(options.servers)) checkServer(name, server);
}

export function isHttp(server: McpServerOptions): server is McpHttpOptions {
  return 'url' in server;
}

/** Of what a server sends. */
export function bodyLimitsOf({
  maxBodyBytes = defaultBodyLimits.maxBodyBytes,
  maxEventBytes = defaultBodyLimits.maxEventBytes,
}: McpServerOptions): BodyLimits {
  return { maxBodyBytes, maxEventBytes };
}

/** The error of a response that is too large, or nests too deep. */
export const limitError: LimitError = (what, limit) =>
  limit === 'size'
    ? new AgentLoopError('TOOL_TOO_LARGE', what)
    : new AgentLoopError('TOOL_FAILED', what, { reason: nestedTooDeep });

function checkServer(name: string, server: McpServerOptions): void {
  const owner = `mcpTools: server "${name}"`;
  if (!/^[a-zA-Z0-9_-]{1,32}$/.test(name))
    throw invalid(`${owner} has a name of other characters; use 1 to 32 of a-z, A-Z, 0-9, _ and -`);
  if (!isObject(server)) throw invalid(`${owner} is ${shownValue(server)}; give { command } or { url }`);
  if ('url' in server === 'command' in server) throw invalid(`${owner} needs a command or a url, one of them`);
  if (isHttp(server)) checkHttp(owner, server);
  else {
    assertOptions(owner, server, processRules);
    assertGiven(owner, 'command', server.command, 'give the name of a program');
  }
  checkAsking(owner, server);
}

function checkHttp(owner: string, options: McpHttpOptions): void {
  assertOptions(owner, options, httpRules);
  const text = String(options.url);
  if (!URL.canParse(text) || !/^https?:$/.test(new URL(text).protocol))
    throw invalid(`${owner}: url is no address of http or https`);
  const { username, password } = new URL(text);
  if (username !== '' || password !== '')
    throw invalid(`${owner}: url holds a user or a password; send them as a header: headers: { Authorization: … }`);
  if (options.auth !== undefined) checkAuth(`${owner}: auth`, options.auth);
}

/** What lets a server ask the user, or a model. */
function checkAsking(owner: string, { elicitation, sampling }: McpServerOptions): void {
  if (elicitation !== undefined && typeof elicitation !== 'boolean')
    assertOptions(`${owner}: elicitation`, elicitation, elicitationRules);
  if (sampling === undefined) return;
  assertOptions(`${owner}: sampling`, sampling, samplingRules);
  assertGiven(`${owner}: sampling`, 'provider', sampling.provider, 'give the provider that answers the server');
}

function invalid(message: string): AgentLoopError {
  return new AgentLoopError('INVALID_CONFIG', `${message}.`);
}
