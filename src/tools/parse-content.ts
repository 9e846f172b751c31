import { AgentLoopError, type JsonContent, messageOf } from '../core/contracts/index.ts';

/**
 * The value that a tool returned, of the content of its `internal:tool-complete` event: what its JSON says, with the type that `tool` has read of
 * `execute`. It is not checked again. Errors: `INVALID_INPUT` where the content is not JSON, because an extension has replaced it.
 */
export function parseContent<T>(content: JsonContent<T>): T;
export function parseContent(content: string): unknown {
  try {
    return JSON.parse(content);
  } catch (cause) {
    const message = `The content of a tool result is not JSON (${messageOf(cause)}); an extension may have replaced it.`;
    throw new AgentLoopError('INVALID_INPUT', message, { cause });
  }
}
