import { AgentLoopError, shownValue } from '../core/contracts/index.ts';
import { type BodyLimits, bytesFlaw, defaultBodyLimits } from '../core/model-call/index.ts';
import { assertKnownOptions } from '../stores/check-arguments.ts';
import type {
  McpHttpOptions,
  McpProcessOptions,
  McpReconnectOptions,
  McpSamplingOptions,
  McpServerOptions,
  McpToolsOptions,
} from './mcp-options.ts';

type Names<Options> = Readonly<Record<keyof Options, true>>;

const provider: Names<McpToolsOptions> = { servers: true, name: true, reconnect: true, logger: true };
const reconnect: Names<McpReconnectOptions> = { initialMs: true, maxMs: true };
const sampling: Names<McpSamplingOptions> = { provider: true, model: true, maxTokens: true, maxRequests: true };
const shared = {
  required: true,
  prefix: true,
  tools: true,
  resources: true,
  roots: true,
  timeoutMs: true,
  maxTimeMs: true,
  connectTimeoutMs: true,
  maxBodyBytes: true,
  maxEventBytes: true,
  elicitation: true,
  sampling: true,
  trustAnnotations: true,
  needsApproval: true,
  policy: true,
} as const;
const ofProcess: Names<McpProcessOptions> = {
  ...shared,
  command: true,
  args: true,
  env: true,
  cwd: true,
  closeGraceMs: true,
};
const ofHttp: Names<McpHttpOptions> = { ...shared, url: true, headers: true };

/** Throws `INVALID_CONFIG`, naming the server, the option and the cure. No value that may hold a secret is repeated. */
export function checkMcpOptions(options: McpToolsOptions): void {
  assertKnownOptions('mcpTools', options, provider);
  if (options.reconnect !== undefined) {
    assertKnownOptions('mcpTools: reconnect', options.reconnect, reconnect);
    checkDurations('mcpTools: reconnect', options.reconnect, ['initialMs', 'maxMs']);
  }
  const servers: unknown = options.servers;
  if (!isRecord(servers) || Object.keys(servers).length === 0)
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

function checkServer(name: string, server: McpServerOptions): void {
  const owner = `mcpTools: server "${name}"`;
  if (!/^[a-zA-Z0-9_-]{1,32}$/.test(name))
    throw invalid(`${owner} has a name of other characters; use 1 to 32 of a-z, A-Z, 0-9, _ and -`);
  if (!isRecord(server)) throw invalid(`${owner} is ${shownValue(server)}; give { command } or { url }`);
  if ('url' in server === 'command' in server) throw invalid(`${owner} needs a command or a url, one of them`);
  if (isHttp(server)) checkHttp(owner, server);
  else checkProcess(owner, server);
  checkShared(owner, server);
}

function checkHttp(owner: string, options: McpHttpOptions): void {
  assertKnownOptions(owner, options, ofHttp);
  const text = String(options.url);
  if (!URL.canParse(text) || !/^https?:$/.test(new URL(text).protocol))
    throw invalid(`${owner}: url is no address of http or https`);
  const { username, password } = new URL(text);
  if (username !== '' || password !== '')
    throw invalid(`${owner}: url holds a user or a password; send them as a header: headers: { Authorization: … }`);
  const { headers } = options;
  if (headers !== undefined && typeof headers !== 'function' && !isTexts(headers))
    throw invalid(
      `${owner}: headers must be an object of strings, such as { Authorization: "Bearer …" }, or a function`,
    );
}

function checkProcess(owner: string, options: McpProcessOptions): void {
  assertKnownOptions(owner, options, ofProcess);
  const { command, args, env, cwd } = options;
  if (typeof command !== 'string' || command.trim() === '') throw invalid(`${owner}: command is no name of a program`);
  if (args !== undefined && !isTextList(args)) throw invalid(`${owner}: args must be an array of strings`);
  if (env !== undefined && !isTexts(env)) throw invalid(`${owner}: env must be an object of strings`);
  checkDurations(owner, options, ['closeGraceMs']);
  if (cwd !== undefined && typeof cwd !== 'string') throw invalid(`${owner}: cwd is no path`);
}

function checkShared(owner: string, options: McpServerOptions): void {
  const { prefix, tools, roots, needsApproval, policy, elicitation } = options;
  for (const name of ['required', 'resources', 'trustAnnotations'] as const) {
    const value: unknown = options[name];
    if (value !== undefined && typeof value !== 'boolean')
      throw invalid(`${owner}: ${name} is ${shownValue(value)}; give true or false`);
  }
  checkDurations(owner, options, ['timeoutMs', 'maxTimeMs', 'connectTimeoutMs']);
  for (const name of ['maxBodyBytes', 'maxEventBytes'] as const) {
    const flaw = bytesFlaw(name, options[name]);
    if (flaw !== undefined) throw invalid(`${owner}: ${flaw}`);
  }
  if (prefix !== undefined && !/^[a-zA-Z0-9_-]{0,40}$/.test(prefix))
    throw invalid(`${owner}: prefix is ${shownValue(prefix)}; use at most 40 of a-z, A-Z, 0-9, _ and -`);
  if (tools !== undefined && !isTextList(tools)) throw invalid(`${owner}: tools must be an array of names`);
  if (roots !== undefined && !isTextList(roots)) throw invalid(`${owner}: roots must be an array of folders`);
  if (policy !== undefined && typeof policy !== 'function')
    throw invalid(`${owner}: policy must be a function of a tool`);
  const modes: readonly unknown[] = [undefined, true, false, 'destructive'];
  if (!modes.includes(needsApproval) && typeof needsApproval !== 'function')
    throw invalid(
      `${owner}: needsApproval is ${shownValue(needsApproval)}; give true, false, "destructive" or a function`,
    );
  if (elicitation !== undefined && typeof elicitation !== 'boolean') {
    assertKnownOptions(`${owner}: elicitation`, elicitation, { holdMs: true });
    checkDurations(`${owner}: elicitation`, elicitation, ['holdMs']);
  }
  if (options.sampling !== undefined) checkSampling(`${owner}: sampling`, options.sampling);
}

function checkSampling(owner: string, options: McpSamplingOptions): void {
  assertKnownOptions(owner, options, sampling);
  if (typeof options.provider?.call !== 'function')
    throw invalid(`${owner}: provider is missing; give the provider that answers the server`);
  for (const name of ['maxTokens', 'maxRequests'] as const) {
    const value = options[name];
    if (value !== undefined && !(Number.isInteger(value) && value > 0))
      throw invalid(`${owner}: ${name} is ${shownValue(value)}; give a whole number from 1`);
  }
}

function checkDurations<Options extends object>(
  owner: string,
  options: Options,
  names: readonly (keyof Options & string)[],
): void {
  for (const name of names) {
    const value: unknown = options[name];
    const fits = typeof value === 'number' && value > 0 && value <= 2_147_483_647;
    if (value !== undefined && !fits)
      throw invalid(`${owner}: ${name} is ${shownValue(value)}; give milliseconds, more than 0`);
  }
}

function isTexts(value: unknown): boolean {
  return isRecord(value) && Object.values(value).every((each) => typeof each === 'string');
}

function isTextList(value: unknown): boolean {
  return Array.isArray(value) && value.every((each) => typeof each === 'string');
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function invalid(message: string): AgentLoopError {
  return new AgentLoopError('INVALID_CONFIG', `${message}.`);
}
