-- ARGV: the channel of the key.
if owner then
  redis.call('DEL', lock, beside)
  redis.pcall('PUBLISH', ARGV[1], '')
end
return {'released', owner, record, left}
