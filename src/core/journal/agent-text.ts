import { mergeMap, type OperatorFunction } from 'rxjs';
import { type AgentEvent, partsText, type SubAgentStep } from '../contracts/events.ts';

/** A piece of text of an artifact, of the turn or of one of its descendants. */
export interface AgentText {
  /** From the child turn of this turn to the turn whose text it is; empty for the turn's own. */
  readonly path: readonly SubAgentStep[];
  readonly artifactId: string;
  readonly text: string;
  /** False: this replaces the text that the artifact of this path had. */
  readonly append: boolean;
  readonly lastChunk: boolean;
}

const own: readonly SubAgentStep[] = [];

/**
 * The text of a turn and of its descendants as it streams: `turn.pipe(agentText())`. Emits one value for each artifact event, in the order of
 * the events, also the last, empty chunk of an artifact. `path` and `artifactId` together identify an artifact.
 *
 * Completes and errors as the source does. Unsubscribing leaves the source. Holds nothing.
 */
export function agentText(): OperatorFunction<AgentEvent, AgentText> {
  return mergeMap((event) => {
    const nested = event.kind === 'internal:sub-agent';
    const { path, shown } = nested ? { path: event.path, shown: event.event } : { path: own, shown: event };
    if (shown.kind !== 'artifact-update') return [];
    const { artifact, append, lastChunk } = shown;
    const text = partsText(artifact.parts);
    return [{ path, artifactId: artifact.artifactId, text, append, lastChunk }];
  });
}
