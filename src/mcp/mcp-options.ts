import type { LLMProvider, Logger, ToolListContext, ToolPolicy } from '../core/contracts/index.ts';

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

export interface McpAnnotations {
  readonly readOnlyHint?: boolean;
  readonly destructiveHint?: boolean;
  readonly idempotentHint?: boolean;
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

export interface McpElicitationOptions {
  /**
   * How long the call stays open at the server while its question waits for an answer. Milliseconds; default 600,000. Where the answer
   * comes later, or in another process, the tool is called again.
   */
  readonly holdMs?: number | undefined;
}

interface McpServerSettings {
  /** Whether a turn fails where this server cannot be reached when it starts. Default false: the turn goes without its tools. */
  readonly required?: boolean | undefined;
  /** In front of the tools' names. Default: the server's name and `__`; `''` for none. */
  readonly prefix?: string | undefined;
  /** The tools to offer, by their names at the server. Default: all. */
  readonly tools?: readonly string[] | undefined;
  /** Whether the model gets the tools `list_resources` and `read_resource`. Default false. */
  readonly resources?: boolean | undefined;
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
}

export type McpHeaders = Readonly<Record<string, string>>;

export type McpServerOptions = McpProcessOptions | McpHttpOptions;

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

export interface McpReconnectOptions {
  /** Milliseconds; default 500. */
  readonly initialMs?: number | undefined;
  /** Milliseconds; default 30,000. */
  readonly maxMs?: number | undefined;
}
