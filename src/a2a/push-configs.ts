import type { TaskPushNotificationConfig } from '@a2a-js/sdk';

/** A task of the caller. */
export interface OwnTask {
  readonly taskId: string;
  /** As the stores know it, with the owner's digest in front. */
  readonly contextId: string;
}

/**
 * Stores push notification configurations of clients. The handler has checked that the task is the caller's; what an implementation throws
 * reaches the client only where it is an error of the protocol.
 */
export interface PushConfigs {
  /** Rejects for a configuration that cannot be kept, before a message that brings it starts anything. */
  check(config: TaskPushNotificationConfig): Promise<void>;
  /**
   * Keeps a configuration under an id of the server's making, or that of one that is replaced, for notifications in the version that
   * the client speaks. Gives what was kept.
   */
  create(task: OwnTask, config: TaskPushNotificationConfig, version: string): Promise<TaskPushNotificationConfig>;
  /** `undefined` where there is none of that id. */
  get(task: OwnTask, id: string): Promise<TaskPushNotificationConfig | undefined>;
  list(task: OwnTask): Promise<readonly TaskPushNotificationConfig[]>;
  /** How many bytes are kept for a task, with what `list` does not show. Default: those of what it shows. */
  bytes?(task: OwnTask): Promise<number>;
  /** Does nothing where there is none. */
  delete(task: OwnTask, id: string): Promise<void>;
}
