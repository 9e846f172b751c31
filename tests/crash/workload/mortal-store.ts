import type { TaskStateStore } from 'millrace';
import type { Life, StoreCall } from './life.ts';
import { withMethods } from './with-methods.ts';

type Method = 'create' | 'acquire' | 'append' | 'renew' | 'release' | 'read';

/** The same store, whose process may die before a call, after it was sent, and after it was answered. */
export function mortalStore(store: TaskStateStore, life: Life): TaskStateStore {
  const mortal =
    <A extends unknown[], T>(name: Method, method: (...args: A) => T | Promise<T>) =>
    async (...args: A): Promise<T> => {
      const about = aboutOf(args);
      await life.reach(`${name}:before`, about);
      const answer = Promise.resolve(method.apply(store, args));
      answer.catch(() => {});
      await life.reach(`${name}:sent`, about);
      const value = await answer;
      await life.reach(`${name}:answered`, about);
      return value;
    };
  return withMethods(store, {
    create: mortal('create', store.create),
    acquire: mortal('acquire', store.acquire),
    append: mortal<Parameters<TaskStateStore['append']>, void>('append', store.append),
    renew: mortal('renew', store.renew),
    release: mortal('release', store.release),
    read: mortal('read', store.read),
  });
}

function aboutOf([subject, second]: readonly unknown[]): StoreCall {
  const taskId = typeof subject === 'string' ? subject : memberOf(subject, 'taskId');
  const records: readonly unknown[] = Array.isArray(second) ? second : [];
  return { taskId, types: records.map((record) => memberOf(record, 'type')) };
}

function memberOf(value: unknown, name: string): string {
  return typeof value === 'object' && value !== null ? String(Reflect.get(value, name)) : '';
}
