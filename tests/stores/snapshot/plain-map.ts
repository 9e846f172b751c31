import type { Snapshot, SnapshotStore } from 'millrace';

/** A user's store as it may be: JSON in a map, later than at once. */
export class PlainMap implements SnapshotStore {
  readonly texts = new Map<string, string>();
  /** What was saved, in order. */
  readonly saves: Snapshot[] = [];
  /** Thrown by the saves to come, the first first. */
  readonly failures: Error[] = [];

  async save(taskId: string, state: Snapshot): Promise<void> {
    await undefined;
    const failure = this.failures.shift();
    if (failure) throw failure;
    const text = JSON.stringify(state);
    this.texts.set(taskId, text);
    this.saves.push(JSON.parse(text));
  }

  async load(taskId: string): Promise<Snapshot | null> {
    await undefined;
    return JSON.parse(this.texts.get(taskId) ?? 'null');
  }

  async delete(taskId: string): Promise<void> {
    this.texts.delete(taskId);
  }
}
