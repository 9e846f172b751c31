import { AgentLoopError, type ArtifactStore } from '../../core/contracts/index.ts';
import { assertKnownOptions, type OptionNames } from '../known-options.ts';
import { ArtifactFolder } from './artifact-folder.ts';
import { ShelvedArtifactStore, type ShelvedArtifactStoreOptions } from './shelved-artifact-store.ts';

export interface FolderArtifactStoreOptions extends ShelvedArtifactStoreOptions {}

const optionNames: OptionNames<FolderArtifactStoreOptions> = { keepVersions: true, clock: true };

/**
 * Keeps artifacts in the files of a folder, shared by any number of processes of one machine.
 *
 * A version is a folder that appears by one rename, after its files are on the disk: `kill -9` at any instruction and a power cut leave
 * it whole or not at all, and of two processes that write the same version one gets the next. No id, name or media type becomes a
 * path: ids are encoded, all else stands inside of files. `read` compares content and hash. The folder is made at the first write.
 *
 * Errors besides the contract's: `INVALID_CONFIG` here; `FULL` where the disk is, `UNAVAILABLE` where the folder cannot be read or
 * written, both retryable. `list` reads all file names of the task, the context or the store, and one file an artifact.
 *
 * Memory: a chunk of 64 KiB a reader, the chunk that is written, and about 1 KiB a draft; contents only in `get`, `create` and
 * `update`. Drafts that nobody wrote to for a day are removed when a store first writes to the folder.
 */
export function folderArtifactStore(path: string, options: FolderArtifactStoreOptions = {}): ArtifactStore {
  if (typeof path !== 'string' || path === '') {
    throw new AgentLoopError('INVALID_CONFIG', 'The artifact store needs a path: the folder that its files lie in.');
  }
  assertKnownOptions('folderArtifactStore', options, optionNames);
  return new ShelvedArtifactStore(new ArtifactFolder(path), options);
}
