import type { Agent } from '../../agent/agent.ts';
import { protocolErrors } from '../protocol-errors.ts';
import { type RemoteAgentOptions, resolveRemote } from './remote-options.ts';

/**
 * An agent of another server, reached over A2A (1.0 or 0.3), as an agent of ours: run it, give it to `agentTools` or to a `team`.
 *
 * A turn sends what the user said, follows the task that comes of it and ends as it ends; the text of its artifacts is streamed and is the
 * answer. The task at its end is compared with what was streamed, and a difference is shown as the whole text anew. A turn of Millrace on
 * the other side is shown as one of ours would be: the text and the value are those that it ended with. Its questions (`input-required`,
 * `auth-required`) suspend the turn, and the answers are sent to it: to a turn of Millrace by question, to any other server a string as a
 * text part, all else as a data part. Later turns of one context continue in one context of the other side.
 *
 * Unsubscribing, a cancel, a limit and `taskTimeoutMs` (default one hour) cancel the remote task; a process that dies or shuts down does
 * not: with a `taskStateStore` the resumed turn continues with the same task. The caller's trace is sent along.
 *
 * `name` and `description` are those of its card, which is fetched at once unless both are given. Rejects with `INVALID_CONFIG`,
 * `MISSING_PACKAGE`; where the card is fetched also with `PROVIDER_…`, which else are errors of the turn: of one that failed on the other
 * side `PROVIDER_FAILED`.
 */
export async function remoteAgent(options: RemoteAgentOptions): Promise<Agent> {
  const remote = resolveRemote(options);
  protocolErrors();
  const { connectRemote } = await import('./connect-remote.ts');
  return connectRemote(options, remote);
}
