import type { AgentExtension } from '@a2a-js/sdk';

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
