return {'seen', owner, record, left}
