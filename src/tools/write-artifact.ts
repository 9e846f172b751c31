import { AgentLoopError, type ArtifactInfo, type ArtifactStore, type ToolContext } from '../core/contracts/index.ts';

/** Texts, as they come. */
export type TextChunks = Iterable<string> | AsyncIterable<string>;

/**
 * Writes the content of an artifact, chunk by chunk, and shows each as an `artifact-update` event once the store has it: the first with
 * `append: false`, the last, which is empty, with `lastChunk: true`. Gives the version that the last one makes. Nobody sees the content
 * before that; where it is left half-way, what the artifact held stays. Holds one chunk at a time. Errors: those of the store, and the
 * reason of the context's signal once the call is cancelled.
 */
export async function writeArtifact(
  store: ArtifactStore,
  artifactId: string,
  chunks: TextChunks,
  context: Pick<ToolContext, 'progress' | 'signal'>,
): Promise<ArtifactInfo> {
  let size = 0;
  let append = false;
  for await (const text of chunks) {
    context.signal.throwIfAborted();
    ({ size } = await store.append(artifactId, text, { offset: size }));
    context.progress({ type: 'artifact-chunk', artifactId, text, append, lastChunk: false });
    append = true;
  }
  const { artifact } = await store.append(artifactId, '', { offset: size, last: true });
  context.progress({ type: 'artifact-chunk', artifactId, text: '', append, lastChunk: true });
  if (artifact) return artifact;
  const known = await store.describe(artifactId);
  if (known) return known;
  throw new AgentLoopError('NOT_FOUND', `Artifact "${artifactId}" was deleted while it was written; create it again.`);
}
