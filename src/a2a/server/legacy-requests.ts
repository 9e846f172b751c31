import type { A2ARequestHandler } from '@a2a-js/sdk/server';
import type { RequestHandler } from 'express';
import { isObject } from '../../core/contracts/index.ts';
import { invalidParams, isLegacy, refuse } from './refusal.ts';

/** The id of a configuration where a client gives none: over JSON-RPC nothing, elsewhere what the Python SDK makes of `None`. */
const unnamed: ReadonlySet<string> = new Set(['', 'None']);

/** A handler that understands clients of 0.3 where they mean something else than clients of 1.0 do. */
export function forLegacyClients(handler: A2ARequestHandler): A2ARequestHandler {
  return {
    ...handler,
    /** Without an id: the newest configuration of the task. */
    async getTaskPushNotificationConfig(params, context) {
      const { tenant, taskId, id } = params;
      if (!isLegacy(context.requestedVersion) || !unnamed.has(id))
        return handler.getTaskPushNotificationConfig(params, context);
      const all = { tenant, taskId, pageSize: 0, pageToken: '' };
      const { configs } = await handler.listTaskPushNotificationConfigs(all, context);
      const found = configs.find((config) => config.id === id) ?? configs.at(-1);
      return found ?? handler.getTaskPushNotificationConfig(params, context);
    },
  };
}

/** The same for gRPC, whose messages of 0.3 cannot tell a `historyLength` of 0 from none. */
export function forLegacyGrpcClients(handler: A2ARequestHandler): A2ARequestHandler {
  return {
    ...forLegacyClients(handler),
    getTask: ({ historyLength, ...params }, context) =>
      handler.getTask({ ...params, ...(historyLength && { historyLength }) }, context),
  };
}

/** In any case, as the router matches it. */
const configsPath = /^\/v1\/tasks\/([^/]+)\/pushNotificationConfigs\/?$/i;

/**
 * Gives the request that sets a configuration over HTTP+JSON the one form that the codec reads, `{ name, pushNotificationConfig }`. Clients
 * send that, or `{ parent, configId, config: { name, pushNotificationConfig } }`, as the method's own message is. The task is that of the path.
 */
export const legacyPushConfig: RequestHandler = (request, response, next) => {
  const taskId = request.method === 'POST' && configsPath.exec(request.path)?.[1];
  if (!taskId || !isLegacy(request.header('a2a-version')) || !isObject(request.body)) return next();
  const { parent, configId, config_id: id = configId, config: inner, ...rest } = request.body;
  const {
    name,
    pushNotificationConfig,
    push_notification_config: config = pushNotificationConfig,
  } = isObject(inner) ? inner : rest;
  const task = `tasks/${taskId}`;
  const isOfTask = (given: unknown) => typeof given !== 'string' || given === task || given.startsWith(`${task}/`);
  if (!isOfTask(parent) || !isOfTask(name)) return refuse(request, response, 'HTTP+JSON', otherTask);
  const named = isObject(config) && typeof id === 'string' && !config['id'] ? { ...config, id } : config;
  request.body = { name: task, pushNotificationConfig: named };
  next();
};

const otherTask = {
  status: 400,
  code: invalidParams,
  statusName: 'INVALID_ARGUMENT',
  reason: 'INVALID_PARAMS',
  message: 'The body names another task than the path.',
};
