"""klazy in the frameworks of others: each module needs the package that it is named after."""
