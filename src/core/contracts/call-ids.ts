import type { AssistantMessage } from './messages.ts';

const callIdPattern = /^\d+:\d+$/;

/**
 * The engine's ids of a message's calls: `<iteration>:<position>`, unless `metadata.callIds` lists others. Metadata may come from anywhere: an
 * invalid list is ignored.
 */
export function callIdsOf({ toolCalls = [], metadata }: AssistantMessage, iteration: number): readonly string[] {
  const listed = metadata?.['callIds'];
  if (Array.isArray(listed) && listed.length === toolCalls.length && listed.every(isCallId)) return listed;
  return toolCalls.map((_, index) => `${iteration}:${index}`);
}

/** The metadata of a message with the ids of its calls, which are in order: they are listed only where a call before one of them was left out. */
export function listCallIds(
  metadata: AssistantMessage['metadata'],
  callIds: readonly string[],
  iteration: number,
): AssistantMessage['metadata'] {
  const last = callIds.at(-1);
  return last === undefined || last === `${iteration}:${callIds.length - 1}` ? metadata : { ...metadata, callIds };
}

function isCallId(value: unknown): value is string {
  return typeof value === 'string' && callIdPattern.test(value);
}
