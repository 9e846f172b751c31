import type { ListTasksRequest, ListTasksResponse } from '@a2a-js/sdk';
import type { CallerTasks } from './caller-tasks.ts';

export async function listTasks(_tasks: CallerTasks, _params: ListTasksRequest): Promise<ListTasksResponse> {
  return { tasks: [], nextPageToken: '', pageSize: 50, totalSize: 0 };
}
