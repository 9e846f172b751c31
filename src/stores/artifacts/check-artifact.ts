import { randomUUID } from 'node:crypto';
import {
  AgentLoopError,
  type ArtifactChange,
  type ArtifactContent,
  type ArtifactInfo,
  type ArtifactPage,
  type ArtifactQuery,
  type ChunkOptions,
  type NewArtifact,
  shownValue,
  taskIdPattern,
} from '../../core/contracts/index.ts';
import { encodeMetadata } from '../check-arguments.ts';

const maxNameLength = 255;

/** RFC 6838, with the parameters of RFC 9110. */
const mediaTypePattern = /^[\w!#$&^.+-]{1,127}\/[\w!#$&^.+-]{1,127}( *;[\x20-\x7e]{1,200})?$/;

/** The members of an info that the caller sets. */
export type GivenInfo = Pick<ArtifactInfo, 'artifactId' | 'name' | 'mediaType' | 'taskId' | 'contextId' | 'metadata'>;

/** Refuses an invalid id: `INVALID_INPUT`. `what` names it. */
export function assertId(id: unknown, what = 'artifact id'): asserts id is string {
  if (typeof id === 'string' && taskIdPattern.test(id)) return;
  throw invalid(`The ${what} ${shownValue(id)} is invalid; use 1 to 128 of the characters A-Z a-z 0-9 _ . : -`);
}

/** Validates a new artifact and adds the defaults. Errors: `INVALID_INPUT`. */
export function infoOf(artifact: NewArtifact): GivenInfo {
  if (typeof artifact !== 'object' || artifact === null) throw invalid(`artifact is ${shownValue(artifact)}.`);
  const { artifactId = `artifact-${randomUUID()}`, name, taskId, contextId, metadata, content } = artifact;
  const { mediaType = typeof content === 'string' ? 'text/plain' : 'application/octet-stream' } = artifact;
  assertId(artifactId);
  assertName(name);
  if (taskId !== undefined) assertId(taskId, 'task id');
  if (contextId !== undefined) assertId(contextId, 'context id');
  return {
    artifactId,
    ...checked({ name, mediaType, ...(metadata !== undefined && { metadata }) }),
    name,
    mediaType,
    ...(taskId !== undefined && { taskId }),
    ...(contextId !== undefined && { contextId }),
  };
}

/** Validates and copies the members of a change that are part of an info. Errors: `INVALID_INPUT`. */
export function checked({ name, mediaType, metadata }: ArtifactChange): Omit<ArtifactChange, 'content'> {
  if (name !== undefined) assertName(name);
  if (mediaType !== undefined && !(typeof mediaType === 'string' && mediaTypePattern.test(mediaType))) {
    throw invalid(`mediaType is ${shownValue(mediaType)}; use one such as "text/markdown".`);
  }
  const copy = metadata === undefined ? {} : { metadata: JSON.parse(encodeMetadata(metadata)) };
  return { ...(name !== undefined && { name }), ...(mediaType !== undefined && { mediaType }), ...copy };
}

/** The bytes of a content, copied. Errors: `INVALID_INPUT`. */
export function bytesOf(content: ArtifactContent): Uint8Array {
  if (typeof content === 'string') return Buffer.from(content, 'utf8');
  if (content instanceof Uint8Array) return Uint8Array.from(content);
  throw invalid(`content must be a string or a Uint8Array, not ${shownValue(content)}.`);
}

/** Errors: `INVALID_INPUT`. */
export function assertChunkOptions({ offset = 0 }: ChunkOptions): void {
  if (!Number.isSafeInteger(offset) || offset < 0) {
    throw invalid(`offset is ${shownValue(offset)}; use an integer of bytes ≥ 0, or omit it.`);
  }
}

/** Errors: `INVALID_INPUT`. */
export function assertVersion(version: number | undefined): void {
  if (version === undefined || (Number.isSafeInteger(version) && version >= 1)) return;
  throw invalid(`version is ${shownValue(version)}; use an integer ≥ 1, or omit it.`);
}

/** The query with its defaults. Errors: `INVALID_INPUT`. */
export function artifactQueryOf(
  query: ArtifactQuery,
): ArtifactQuery & { readonly limit: number; readonly after: string } {
  const { limit = 50, after = '', taskId, contextId } = query;
  if (!Number.isSafeInteger(limit) || limit < 1) {
    throw invalid(`limit is ${shownValue(limit)}; use an integer ≥ 1.`);
  }
  if (after !== '') assertId(after);
  if (taskId !== undefined) assertId(taskId, 'task id');
  if (contextId !== undefined) assertId(contextId, 'context id');
  return { ...query, limit, after };
}

/** Whether an artifact matches the task and the context of a query. */
export function isAskedFor(info: ArtifactInfo, { taskId, contextId }: ArtifactQuery): boolean {
  return (taskId === undefined || info.taskId === taskId) && (contextId === undefined || info.contextId === contextId);
}

/** A page of at most `limit` from ordered infos, which include one more if there is a next page. */
export function pageOf(infos: readonly ArtifactInfo[], limit: number): ArtifactPage {
  const artifacts = infos.slice(0, limit);
  const last = artifacts.at(-1);
  return infos.length > limit && last ? { artifacts, next: last.artifactId } : { artifacts };
}

function assertName(name: unknown): void {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: names end up in headers and on terminals.
  if (typeof name === 'string' && name !== '' && name.length <= maxNameLength && !/[\x00-\x1f\x7f]/.test(name)) return;
  throw invalid(
    `name must be a string of 1 to ${maxNameLength} characters without control characters, not ${shownValue(name)}.`,
  );
}

function invalid(sentence: string): AgentLoopError {
  return new AgentLoopError('INVALID_INPUT', sentence);
}

export function noArtifact(artifactId: string, version?: number): AgentLoopError {
  const what = version === undefined ? '' : ` in version ${version}`;
  return new AgentLoopError(
    'NOT_FOUND',
    `The store has no artifact "${artifactId}"${what}; check the id, or create it.`,
  );
}

export function artifactExists(artifactId: string): AgentLoopError {
  return new AgentLoopError(
    'CONFLICT',
    `There is an artifact "${artifactId}"; update it, or create one of another id.`,
  );
}

export function newerVersion(artifactId: string, expected: number, found: number): AgentLoopError {
  return new AgentLoopError(
    'CONFLICT',
    `The newest version of artifact "${artifactId}" is ${found}, not ${expected}: it was changed concurrently; read it and try again.`,
  );
}

export function wrongOffset(artifactId: string, offset: number, size: number): AgentLoopError {
  return new AgentLoopError(
    'CONFLICT',
    `The draft of artifact "${artifactId}" has ${size} bytes here, so no chunk begins at ${offset}; continue from there, or start over at 0.`,
  );
}

export function damagedArtifact(artifactId: string, what: string): AgentLoopError {
  return new AgentLoopError(
    'POISON',
    `The artifact "${artifactId}" cannot be read: ${what}; restore it from a backup, or delete it.`,
  );
}

export function newerArtifact(artifactId: string, layout: number): AgentLoopError {
  return new AgentLoopError(
    'SCHEMA',
    `The artifact "${artifactId}" has layout ${layout}, which this version cannot read; update millrace.`,
  );
}
