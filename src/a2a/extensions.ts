import type { AgentExtension, Message as WireMessage } from '@a2a-js/sdk';
import type { ServerCallContext } from '@a2a-js/sdk/server';
import type { Agent } from '../agent/agent.ts';
import {
  AgentLoopError,
  isObject,
  type ToolCall,
  type ToolContext,
  type ToolDefinition,
  type ToolListContext,
  type ToolProvider,
  type ToolResult,
} from '../core/contracts/index.ts';
import { type ClientTool, ClientToolProvider } from '../tools/client-tool-provider.ts';
import { malformed } from './protocol-errors.ts';

/**
 * The metadata of every update of a task, `{ cursor, reason, code }`: the position in the journal after it, and why a turn ended or waits.
 * A stream that is requested with that cursor in the header `cursorHeader` resumes after that update.
 */
export const turnExtension = 'urn:millrace:a2a:turn:v1';

/** The metadata of a message, `{ tools: [{ name, description, parameters }] }`: tools that the client runs, for the turn that the message starts. */
export const clientToolsExtension = 'urn:millrace:a2a:client-tools:v1';

/**
 * Asked for in `A2A-Extensions`: tool calls are shown as `working` updates. In their metadata stands `{ phase: 'start', callId, toolName }`, and then
 * `{ phase: 'complete', callId, toolName, success, durationMs, code }`, with the code of the error where it has no success. Calls of sub-agents
 * have also a `path` of `{ agentId, callId }`, from the sub-agent of this task to the one that makes the call, `callId` being the call
 * that it runs for. After a break those of open calls come again.
 */
export const toolEventsExtension = 'urn:millrace:a2a:tool-events:v1';

/**
 * Asked for in `A2A-Extensions`: events of the agent's extensions that the server declares (`extensionEvents`) are shown as `working` updates. In
 * their metadata stands `{ kind, iteration, payload, label }`, the kind without `internal:`.
 */
export const extensionEventsExtension = 'urn:millrace:a2a:extension-events:v1';

/** The header, or the gRPC metadata, with the cursor after which a stream resumes. */
export const cursorHeader = 'millrace-cursor';

/** What a card declares of what the request handler does beyond the protocol. */
export function agentExtensions(offered: {
  readonly clientTools: boolean;
  readonly toolEvents: boolean;
  readonly extensionEvents?: readonly string[] | undefined;
}): AgentExtension[] {
  const { extensionEvents = [] } = offered;
  const kinds = extensionEvents.map(wireKind).join(', ');
  return [
    extension(
      turnExtension,
      `Cursor, reason and code of an update; streams resume after the cursor in ${cursorHeader}.`,
    ),
    ...(offered.clientTools ? [extension(clientToolsExtension, 'Tools that the client brings and runs.')] : []),
    ...(offered.toolEvents ? [extension(toolEventsExtension, 'Tool calls as they start and end.')] : []),
    ...(kinds === '' ? [] : [extension(extensionEventsExtension, `Events of extensions: ${kinds}.`)]),
  ];
}

/** The kind of an event as clients read it. */
export function wireKind(kind: string): string {
  return kind.slice('internal:'.length);
}

function extension(uri: string, description: string): AgentExtension {
  return { uri, description, required: false, params: undefined };
}

export interface TurnMetadata {
  readonly cursor?: string | undefined;
  readonly reason?: string | undefined;
  readonly code?: string | undefined;
  /** Messages to the running turn that count for the next one. */
  readonly unread?: readonly unknown[] | undefined;
}

/** Words of programs: names, never sentences, which may say what is nobody's business. */
const name = /^[a-z0-9_-]{1,64}$/;

/** What goes along with a task or an update; `undefined` for nothing. */
export function turnMetadata({ cursor, reason, code, unread }: TurnMetadata): { [key: string]: unknown } | undefined {
  const metadata = {
    ...(cursor !== undefined && { cursor }),
    ...(reason !== undefined && name.test(reason) && { reason }),
    ...(code !== undefined && { code }),
    ...(unread && { unread: unread.length }),
  };
  return Object.keys(metadata).length === 0 ? undefined : { [turnExtension]: metadata };
}

type Headers = Readonly<Record<string, unknown>>;

/** The headers of a call, or the metadata of gRPC; names in lower case. */
export function headersOf({ state }: ServerCallContext): Headers {
  const headers: unknown = state.get('headers');
  return isObject(headers) ? headers : {};
}

const connection = 'connection';

/** Says of a call when nobody waits for its answer any more. */
export function keepConnection({ state }: ServerCallContext, closed: AbortSignal): void {
  state.set(connection, closed);
}

/** Aborted once nobody waits for the answer any more; `undefined` where the transport does not say. */
export function connectionOf({ state }: ServerCallContext): AbortSignal | undefined {
  const closed: unknown = state.get(connection);
  return closed instanceof AbortSignal ? closed : undefined;
}

/** The cursor after which a stream resumes, as requested by the client; `undefined` without one. Errors: RequestMalformed. */
export function requestedCursor(context: ServerCallContext): string | undefined {
  const headers = headersOf(context);
  const cursor = headers[cursorHeader] ?? headers['last-event-id'];
  if (cursor === undefined || cursor === '') return undefined;
  if (typeof cursor === 'string' && /^\d{1,15}-\d{1,15}\.\d{1,6}$/.test(cursor)) return cursor;
  throw malformed(`${cursorHeader} must be the cursor of an update, e.g. 12-1.2.`);
}

/** Whether the client requests an extension; if so, the response says that it is active. */
export function activated(context: ServerCallContext, uri: string): boolean {
  const asked = context.requestedExtensions?.includes(uri) ?? false;
  if (asked) context.addActivatedExtension(uri);
  return asked;
}

/** How many tools a client may bring, and how long their descriptions may be as JSON. */
const maxTools = 50;
const maxLength = 100_000;

/**
 * The tools that a client brings with its message: among the `toolProviders` of an agent it lets clients of A2A do so. They stand in the
 * journal with the turn, so it knows them after a restart. Calls become questions, see `ClientToolProvider`. A tool of the agent's own with
 * the same name fails the turn with `DUPLICATE_TOOL`.
 */
export class A2AClientTools implements ToolProvider {
  readonly name = 'A2AClientTools';

  getTools(context: ToolListContext): readonly ToolDefinition[] | Promise<readonly ToolDefinition[]> {
    const tools = toolsIn(context.metadata);
    return tools.length === 0 ? [] : new ClientToolProvider(tools, { name: this.name }).getTools(context);
  }

  async executeTool(call: ToolCall, context: ToolContext): Promise<ToolResult> {
    const tools = new ClientToolProvider(toolsIn(context.metadata), { name: this.name });
    return tools.executeTool(call, context);
  }
}

/** Whether clients may bring tools. */
function takesClientTools({ options }: Agent): boolean {
  return (options.toolProviders ?? []).some((provider) => provider instanceof A2AClientTools);
}

/** The metadata of a turn that a message starts; `undefined` where it brings nothing. Errors: RequestMalformed. */
export function metadataForTools(
  { metadata }: WireMessage,
  agent: Agent,
): Readonly<Record<string, unknown>> | undefined {
  const brought: unknown = metadata?.[clientToolsExtension];
  if (brought === undefined || !takesClientTools(agent)) return undefined;
  const tools: unknown =
    typeof brought === 'object' && brought !== null && 'tools' in brought ? brought.tools : undefined;
  if (!Array.isArray(tools)) throw malformed(`The metadata of ${clientToolsExtension} must be { tools: [ … ] }.`);
  if (tools.length > maxTools || JSON.stringify(tools).length > maxLength)
    throw malformed(`A message may bring at most ${maxTools} tools, of ${maxLength} characters together.`);
  checkTools(tools);
  return { [clientToolsExtension]: tools };
}

function checkTools(tools: ClientTool[]): void {
  try {
    new ClientToolProvider(tools);
  } catch (error) {
    if (AgentLoopError.isInstance(error)) throw malformed(error.message);
    throw error;
  }
}

function toolsIn(metadata: Readonly<Record<string, unknown>>): readonly ClientTool[] {
  const tools = metadata[clientToolsExtension];
  return Array.isArray(tools) ? tools : [];
}
