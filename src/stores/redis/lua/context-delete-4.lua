-- Forgets a context.
-- Gives {OK}
redis.call('UNLINK', unpack(KEYS))
return { OK }
