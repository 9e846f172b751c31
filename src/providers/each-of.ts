import { Observable } from 'rxjs';

/** The members of each list, one after the other. Written by hand: it stands on the path of every token. */
export function eachOf<T>(lists: Observable<readonly T[]>): Observable<T> {
  return new Observable((subscriber) =>
    lists.subscribe({
      next: (list) => {
        for (const item of list) subscriber.next(item);
      },
      error: (error: unknown) => subscriber.error(error),
      complete: () => subscriber.complete(),
    }),
  );
}
