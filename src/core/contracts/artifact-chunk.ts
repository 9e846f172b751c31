/** A piece of an artifact that a tool makes. Given to `context.progress`, it is shown as an `artifact-update` event. */
export interface ArtifactChunk {
  readonly type: 'artifact-chunk';
  readonly artifactId: string;
  /** Default none. */
  readonly name?: string;
  readonly text: string;
  /** False: this replaces whatever the artifact held. */
  readonly append: boolean;
  readonly lastChunk: boolean;
}

export function isArtifactChunk(update: unknown): update is ArtifactChunk {
  if (typeof update !== 'object' || update === null || !('type' in update) || update.type !== 'artifact-chunk')
    return false;
  if (!('artifactId' in update && 'text' in update && 'append' in update && 'lastChunk' in update)) return false;
  const { artifactId, text, append, lastChunk } = update;
  const texts = typeof artifactId === 'string' && typeof text === 'string';
  return texts && typeof append === 'boolean' && typeof lastChunk === 'boolean';
}
