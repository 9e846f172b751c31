import type { Artifact, Part } from '@a2a-js/sdk';
import type { ArtifactInfo, ArtifactStore } from '../core/contracts/index.ts';
import { dataPart, textPart } from './parts.ts';

export interface KeptArtifactOptions {
  /** Contents of more bytes are sent by reference. */
  readonly maxInlineBytes: number;
  /** The URL of a content for clients. `undefined`: only its metadata is sent. */
  readonly artifactUrl: ((artifact: ArtifactInfo) => string | undefined) | undefined;
}

/** How many artifacts of one task are shown. */
const maxArtifacts = 100;

/** What the tools of a task keep, in the newest versions; large contents by reference. */
export async function keptArtifacts(
  store: ArtifactStore,
  taskId: string,
  options: KeptArtifactOptions,
): Promise<Artifact[]> {
  const { artifacts } = await store.list({ taskId, limit: maxArtifacts });
  return Promise.all(
    artifacts.map(async (info) => ({
      artifactId: info.artifactId,
      name: info.name,
      description: '',
      parts: [await partOf(store, info, options)],
      metadata: { version: info.version },
      extensions: [],
    })),
  );
}

async function partOf(store: ArtifactStore, info: ArtifactInfo, options: KeptArtifactOptions): Promise<Part> {
  const { artifactId, version, name: filename, mediaType, size, sha256 } = info;
  const about = { filename, mediaType, metadata: undefined };
  const found = size > options.maxInlineBytes ? null : await store.get(artifactId, { version });
  if (found && mediaType.startsWith('text/')) return { ...textPart(new TextDecoder().decode(found.content)), ...about };
  if (found) return { content: { $case: 'raw', value: Buffer.from(found.content) }, ...about };
  const url = options.artifactUrl?.(info);
  if (url !== undefined) return { content: { $case: 'url', value: url }, ...about };
  return dataPart({ artifactId, version, filename, mediaType, size, sha256 });
}
