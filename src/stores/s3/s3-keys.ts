import type { ArtifactInfo, ArtifactQuery } from '../../core/contracts/index.ts';
import { fileNameOf } from '../artifacts/file-name.ts';

/** Versions are written with as many digits, so that their keys sort as they do. */
const digits = 12;

/** The keys of an artifact store, below a prefix. All that end with `/` are prefixes themselves. */
export class S3Keys {
  readonly artifacts: string;
  readonly allContents: string;
  readonly #prefix: string;

  constructor(prefix: string) {
    this.#prefix = prefix;
    this.artifacts = `${prefix}artifacts/`;
    this.allContents = `${prefix}contents/`;
  }

  versions(artifactId: string): string {
    return `${this.artifacts}${fileNameOf(artifactId)}/`;
  }

  version(artifactId: string, version: number): string {
    return `${this.versions(artifactId)}${String(version).padStart(digits, '0')}`;
  }

  contents(artifactId: string): string {
    return `${this.allContents}${fileNameOf(artifactId)}/`;
  }

  /** Sorts behind all versions of an artifact, and before those of the next one. */
  behind(artifactId: string): string {
    return `${this.versions(artifactId)}~`;
  }

  /** Where the marks of a task or a context stand; undefined where a query names neither. */
  list({ taskId, contextId }: ArtifactQuery): string | undefined {
    if (taskId !== undefined) return `${this.#prefix}tasks/${fileNameOf(taskId)}/`;
    if (contextId !== undefined) return `${this.#prefix}contexts/${fileNameOf(contextId)}/`;
    return undefined;
  }

  marks({ artifactId, taskId, contextId }: ArtifactInfo): readonly string[] {
    const of = [taskId !== undefined && { taskId }, contextId !== undefined && { contextId }];
    return of.flatMap((query) => (query === false ? [] : [`${this.list(query)}${fileNameOf(artifactId)}`]));
  }
}
